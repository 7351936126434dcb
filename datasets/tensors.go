package datasets

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/berth-ml/berth/datasets/files"
	"github.com/berth-ml/berth/engine/osfile"
	"github.com/berth-ml/berth/engine/safetensors"
	"github.com/berth-ml/berth/engine/shape"
	"github.com/berth-ml/berth/internal/units"
)

// openTensors reads an array of inputs and an array of targets. The first
// dimension of each is the sample. Floats become float32 and integers int32;
// bytes become float32 among inputs and classes among targets.
func openTensors(ctx context.Context, s Spec) (*Dataset, error) {
	inName, outName := s.Tensors.names()
	c, err := readColumns(ctx, s.Path, s.Memory, arrayField{inName, "input"}, arrayField{outName, "target"})
	if err != nil {
		return nil, err
	}
	input, target := c[0], c[1]
	if m := &target.field.Meta; m.DType == shape.Float32 {
		if s.UnitTarget {
			if err := unit(ctx, &target.column); err != nil {
				return nil, fmt.Errorf("%w: %s: %q: %w", ErrFormat, s.Path, outName, err)
			}
		}
		if m.Shape.Rank() == 0 {
			m.Shape = shape.Of(1)
		}
	}
	t := &table{rows: input.rows, columns: []column{input.column, target.column}}
	print, err := fingerprint(ctx, s, nil, t)
	if err != nil {
		return nil, err
	}
	ds := &Dataset{Name: "tensors " + s.Path, Info: Info{
		Inputs: []Field{input.field}, Tokens: input.ids, Target: target.field, Classes: target.ids, Fingerprint: print}}
	keys, err := targetClasses(ctx, s, t)
	if err != nil {
		return nil, err
	}
	return ds, ds.split(t, s, s.trainFraction(print, 1), keys)
}

// tensorsInputs reads the input array alone. A .npy file may have any name.
func tensorsInputs(ctx context.Context, s Spec, _ *Info, path string) (*table, error) {
	name, _ := s.Tensors.names()
	if strings.HasSuffix(path, ".npy") {
		name = strings.TrimSuffix(filepath.Base(path), ".npy")
	}
	c, err := readColumns(ctx, path, s.Memory, arrayField{name, "input"})
	if err != nil {
		return nil, err
	}
	return &table{rows: c[0].rows, columns: []column{c[0].column}}, nil
}

// arrayField names an array and the field, input or target, that it is read as.
type arrayField struct{ name, field string }

// arrayColumn is a column that was an array.
type arrayColumn struct {
	column
	rows int
	ids  int // one more than the largest id of an int32 column; 0 for floats
}

// readColumns reads arrays with equally many samples, which together fit in
// memory.
func readColumns(ctx context.Context, path string, memory int64, fields ...arrayField) (columns []arrayColumn, err error) {
	arrays := make([]*array, len(fields))
	need := int64(0)
	for i, f := range fields {
		a, err := openArray(ctx, path, f.name)
		if err != nil {
			return nil, err
		}
		defer func() { err = errors.Join(err, a.Close()) }()
		if err := a.checkSamples(); err != nil {
			return nil, fmt.Errorf("%s: %q: %w", path, f.name, err)
		}
		if first := fields[0]; i > 0 && a.shape[0] != arrays[0].shape[0] {
			return nil, fmt.Errorf("%w: %s: %s of %q but %s of %q: save as many of both", ErrFormat, path, units.Count(arrays[0].shape[0], "sample"), first.name, units.Thousands(a.shape[0]), f.name)
		}
		arrays[i] = a
		need += a.memory()
	}
	if err := fits(path, need, memory); err != nil {
		return nil, err
	}
	for i, a := range arrays {
		c := arrayColumn{rows: a.shape[0]}
		float := a.dtype.Float() || fields[i].field == "input" && a.dtype == safetensors.U8
		if c.column, c.ids, err = a.column(ctx, fields[i].field, float); err != nil {
			return nil, fmt.Errorf("%s: %q: %w", path, fields[i].name, err)
		}
		columns = append(columns, c)
	}
	return columns, nil
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

// openArray opens the named array of a .safetensors or .npz file. From a folder,
// or the folder of a .npy file, it opens the file name.npy.
func openArray(ctx context.Context, path, name string) (*array, error) {
	path = osfile.Resolve(path)
	switch filepath.Ext(path) {
	case ".safetensors":
		return openSafetensor(ctx, path, name)
	case ".npz":
		a, err := openNpz(ctx, path, name)
		if errors.Is(err, ErrFormat) {
			err = fmt.Errorf("%s: %w", path, err)
		}
		return a, err
	case ".npy":
		return openNpy(ctx, filepath.Join(filepath.Dir(path), name+".npy"))
	}
	if st, err := os.Stat(path); err != nil {
		return nil, err
	} else if !st.IsDir() {
		return nil, fmt.Errorf("%w: %s: tensors are read from .safetensors, .npz, .npy, or a folder of .npy files", ErrSpec, path)
	}
	return openNpy(ctx, filepath.Join(path, name+".npy"))
}

func openNpy(ctx context.Context, path string) (*array, error) {
	in, err := files.Open(ctx, path)
	if err != nil {
		return nil, err
	}
	a, err := parseNpy(in)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("%s: %w", path, err), in.Close())
	}
	return a, nil
}

func openSafetensor(ctx context.Context, path, name string) (*array, error) {
	f, err := safetensors.Open(ctx, path)
	if err != nil {
		return nil, err
	}
	t, err := f.Lookup(name)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("%s: %w", path, err), f.Close())
	}
	r, err := f.Reader(name)
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return &array{dtype: t.DType, shape: t.Shape, in: &files.Stream{Reader: &files.ContextReader{Context: ctx, Reader: r}, Closer: f.Close, Left: t.Bytes()}}, nil
}
