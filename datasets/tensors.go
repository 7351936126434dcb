package datasets

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/berth-ml/berth/engine/safetensors"
	"github.com/berth-ml/berth/engine/shape"
)

// openTensors reads two arrays whose first dimension is the sample: one of
// inputs, one of targets. Floats become float32, integers int32; bytes are
// pixels among inputs and classes among targets.
func openTensors(ctx context.Context, s Spec) (*Dataset, error) {
	inName, outName := s.Tensors.names()
	in, err := loadArray(ctx, s.Path, inName)
	if err != nil {
		return nil, err
	}
	out, err := loadArray(ctx, s.Path, outName)
	if err != nil {
		return nil, err
	}
	input, rows, err := in.column("input", in.dtype.Float() || in.dtype == safetensors.U8)
	if err != nil {
		return nil, fmt.Errorf("%s: %q: %w", s.Path, inName, err)
	}
	target, n, err := out.column("target", out.dtype.Float())
	if err != nil {
		return nil, fmt.Errorf("%s: %q: %w", s.Path, outName, err)
	}
	if rows != n {
		return nil, fmt.Errorf("%w: %s: %d samples of %q but %d of %q", ErrFormat, s.Path, rows, inName, n, outName)
	}
	if s.UnitTarget && target.field.Meta.DType == shape.Float32 {
		if err := unit(shape.View[float32](target.data), target.field.Meta.Elems()); err != nil {
			return nil, fmt.Errorf("%w: %s: %q: %w", ErrFormat, s.Path, outName, err)
		}
	}
	if m := &target.field.Meta; m.DType == shape.Float32 && m.Shape.Rank() == 0 {
		m.Shape = shape.Of(1)
	}
	t := &table{rows: rows, columns: []column{input, target}}
	ds := &Dataset{Name: "tensors " + s.Path, Info: Info{Inputs: []Field{input.field}, Target: target.field}}
	if ds.Info.Tokens, err = idCount(input); err != nil {
		return nil, fmt.Errorf("%s: %q: %w", s.Path, inName, err)
	}
	if ds.Info.Classes, err = idCount(target); err != nil {
		return nil, fmt.Errorf("%s: %q: %w", s.Path, outName, err)
	}
	ds.Info.Fingerprint = fingerprint(s, nil, t)
	ds.Train, ds.Val, err = splitRandomly(t, s, s.part(ds.Info.Fingerprint, 1))
	return ds, err
}

// tensorsInputs reads the input array alone; of a .npy file, whatever it is
// called.
func tensorsInputs(ctx context.Context, s Spec, _ *Info, path string) (*table, error) {
	name, _ := s.Tensors.names()
	if strings.HasSuffix(path, ".npy") {
		name = strings.TrimSuffix(filepath.Base(path), ".npy")
	}
	a, err := loadArray(ctx, path, name)
	if err != nil {
		return nil, err
	}
	c, rows, err := a.column("input", a.dtype.Float() || a.dtype == safetensors.U8)
	if err != nil {
		return nil, fmt.Errorf("%s: %q: %w", path, name, err)
	}
	return &table{rows: rows, columns: []column{c}}, nil
}

func (o TensorOptions) names() (input, target string) {
	input, target = o.Input, o.Target
	if input == "" {
		input = "input"
	}
	if target == "" {
		target = "target"
	}
	return input, target
}

// loadArray reads the array of a name from a .safetensors or .npz file, or
// from name.npy in a folder or beside a .npy file.
func loadArray(ctx context.Context, path, name string) (*array, error) {
	switch filepath.Ext(path) {
	case ".safetensors":
		return loadSafetensor(path, name)
	case ".npz":
		file, err := readFile(ctx, path)
		if err != nil {
			return nil, err
		}
		a, err := readNpz(file, name)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		return a, nil
	case ".npy":
		return loadNpy(ctx, filepath.Join(filepath.Dir(path), name+".npy"))
	}
	if st, err := os.Stat(path); err != nil {
		return nil, err
	} else if !st.IsDir() {
		return nil, fmt.Errorf("%w: %s: tensors are read from .safetensors, .npz, .npy, or a folder of .npy files", ErrSpec, path)
	}
	return loadNpy(ctx, filepath.Join(path, name+".npy"))
}

func loadNpy(ctx context.Context, path string) (*array, error) {
	file, err := readFile(ctx, path)
	if err != nil {
		return nil, err
	}
	a, err := parseNpy(file)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return a, nil
}

func loadSafetensor(path, name string) (_ *array, err error) {
	f, err := safetensors.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	t, err := f.Lookup(name)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	a := &array{t.DType, t.Shape, make([]byte, t.Bytes())}
	if err := f.Read(name, a.data); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return a, nil
}

// column is the array as float32 or int32 samples, and how many there are.
func (a *array) column(name string, float bool) (column, int, error) {
	if a.shape.Rank() == 0 || a.shape.Elems() == 0 {
		return column{}, 0, fmt.Errorf("%w: an array of shape %v holds no samples", ErrFormat, a.shape)
	}
	meta := shape.Meta{DType: shape.Int32, Shape: a.shape[1:].Clone()}
	n := a.shape.Elems()
	var data []byte
	var err error
	if float {
		meta.DType = shape.Float32
		values := make([]float32, n)
		if err = safetensors.DecodeFloat32(a.dtype, a.data, values); err == nil {
			err = finite(values, n/a.shape[0])
		}
		data = shape.Bytes(values)
	} else {
		values := make([]int32, n)
		err = safetensors.DecodeInt32(a.dtype, a.data, values)
		data = shape.Bytes(values)
	}
	if err != nil {
		return column{}, 0, fmt.Errorf("%w: %w", ErrFormat, err)
	}
	return newColumn(Field{name, meta}, data), a.shape[0], nil
}

// finite refuses NaN and infinities: training on one ends in weights that are
// none.
func finite(values []float32, perSample int) error {
	for i, v := range values {
		if v-v != 0 { // NaN for NaN and for both infinities
			return fmt.Errorf("element %d of sample %d is %v: take the sample out, or replace the number", i%perSample, i/perSample, v)
		}
	}
	return nil
}

// unit refuses targets that do not lie from 0 to 1.
func unit(values []float32, perSample int) error {
	for i, v := range values {
		if !(v >= 0 && v <= 1) {
			return fmt.Errorf("element %d of sample %d: %s", i%perSample, i/perSample, notUnit(v))
		}
	}
	return nil
}

// notUnit says what is wrong with a target outside 0 to 1.
func notUnit(v float32) string {
	return fmt.Sprintf("the target is %v, and the loss is bce, which is for targets of 0 and 1, or between: write it as one, or take another loss, such as mse", v)
}

// idCount is one more than the largest id of an int32 column, 0 for floats.
func idCount(c column) (int, error) {
	if c.field.Meta.DType != shape.Int32 {
		return 0, nil
	}
	count := 0
	for i, v := range shape.View[int32](c.data) {
		if v < 0 {
			return 0, fmt.Errorf("%w: element %d is %d: ids begin at 0; save numbers to predict as floats", ErrFormat, i, v)
		}
		count = max(count, int(v)+1)
	}
	return count, nil
}
