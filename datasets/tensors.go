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

// openTensors reads an array of inputs and an array of targets. The first
// dimension of each is the sample. Floats become float32 and integers int32;
// bytes become float32 among inputs and classes among targets.
func openTensors(ctx context.Context, s Spec) (*Dataset, error) {
	inName, outName := s.Tensors.names()
	input, err := readColumn(ctx, s.Path, inName, "input")
	if err != nil {
		return nil, err
	}
	target, err := readColumn(ctx, s.Path, outName, "target")
	if err != nil {
		return nil, err
	}
	if input.rows != target.rows {
		return nil, fmt.Errorf("%w: %s: %d samples of %q but %d of %q: save as many of both", ErrFormat, s.Path, input.rows, inName, target.rows, outName)
	}
	if m := &target.field.Meta; m.DType == shape.Float32 {
		if s.UnitTarget {
			if err := unit(shape.View[float32](target.data), m.Elems()); err != nil {
				return nil, fmt.Errorf("%w: %s: %q: %w", ErrFormat, s.Path, outName, err)
			}
		}
		if m.Shape.Rank() == 0 {
			m.Shape = shape.Of(1)
		}
	}
	t := &table{rows: input.rows, columns: []column{input.column, target.column}}
	ds := &Dataset{Name: "tensors " + s.Path, Info: Info{
		Inputs: []Field{input.field}, Tokens: input.ids, Target: target.field, Classes: target.ids, Fingerprint: fingerprint(s, nil, t)}}
	ds.Train, ds.Val, err = splitRandomly(t, s, s.trainFraction(ds.Info.Fingerprint, 1))
	return ds, err
}

// tensorsInputs reads the input array alone. A .npy file may have any name.
func tensorsInputs(ctx context.Context, s Spec, _ *Info, path string) (*table, error) {
	name, _ := s.Tensors.names()
	if strings.HasSuffix(path, ".npy") {
		name = strings.TrimSuffix(filepath.Base(path), ".npy")
	}
	c, err := readColumn(ctx, path, name, "input")
	if err != nil {
		return nil, err
	}
	return &table{rows: c.rows, columns: []column{c.column}}, nil
}

// arrayColumn is a column that was an array.
type arrayColumn struct {
	column
	rows int
	ids  int // one more than the largest id of an int32 column; 0 for floats
}

// readColumn reads an array as the column of a field, input or target.
func readColumn(ctx context.Context, path, name, field string) (c arrayColumn, err error) {
	a, err := loadArray(ctx, path, name)
	if err != nil {
		return c, err
	}
	float := a.dtype.Float() || field == "input" && a.dtype == safetensors.U8
	if c.column, c.rows, err = a.column(field, float); err == nil {
		c.ids, err = idCount(c.column)
	}
	if err != nil {
		return c, fmt.Errorf("%s: %q: %w", path, name, err)
	}
	return c, nil
}

// names gives the names of the two arrays.
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

// loadArray reads the named array of a .safetensors or .npz file. From a folder,
// or the folder of a .npy file, it reads the file name.npy.
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
