package initial

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"

	"github.com/berth-ml/berth/engine/graph"
)

// BaseVars are the variables of the base of a model with an adapter: see [graph.BaseTag].
func BaseVars(vars []*graph.Value) (base []*graph.Value) {
	for _, v := range vars {
		if v.Tagged(graph.BaseTag) {
			base = append(base, v)
		}
	}
	return base
}

// OpenBase opens the base of an adapter again, whose source and [Values.BaseHash] a checkpoint has.
// Another base is refused. With "" as the source, the base is made by rule. The values are for the
// variables of BaseVars alone.
func OpenBase(ctx context.Context, init, sum string, seed uint64, vars []*graph.Value) (*Values, error) {
	return openBase(ctx, init, sum, seed, vars, BaseVars(vars))
}

// OpenBaseModel is OpenBase with values for all variables of the base's own model, such as
// statistics. vars are those of a model with an adapter.
func OpenBaseModel(ctx context.Context, init, sum string, seed uint64, vars, own []*graph.Value) (*Values, error) {
	return openBase(ctx, init, sum, seed, vars, own)
}

// openBase is OpenBase with values for the variables own.
func openBase(ctx context.Context, init, sum string, seed uint64, vars, own []*graph.Value) (*Values, error) {
	from := init
	if from == "" {
		from = "the seed"
	}
	x, err := open(ctx, init, seed, vars, own)
	if err != nil {
		return nil, fmt.Errorf("the weights that the adapter was trained beside, of %s: %w: put the file back, or begin another run with --init", from, err)
	}
	now, err := x.BaseHash(ctx, vars)
	if err == nil && now != sum {
		err = fmt.Errorf("%w: those of %s are not what the adapter was trained beside (SHA-256 %s then, %s now): put these back, or begin another run with --init", ErrInit, from, sum, now)
	}
	if err != nil {
		return nil, errors.Join(err, x.Close())
	}
	return x, nil
}

// BaseHash is SHA-256, in hex, over the contents of the base, in bytewise order of the names: each
// one's name, a zero byte, and the SHA-256 of its contents.
func (x *Values) BaseHash(ctx context.Context, vars []*graph.Value) (string, error) {
	sums := map[string][sha256.Size]byte{}
	base := map[string]*graph.Value{}
	for _, v := range BaseVars(vars) {
		base[v.Name] = v
	}
	if x.stream != nil {
		err := x.stream.each(ctx, func(name string, contents []byte) {
			if base[name] != nil {
				sums[name] = sha256.Sum256(contents)
			}
		})
		if err = errors.Join(err, x.stream.Rewind()); err != nil {
			return "", err
		}
	}
	h, contents := sha256.New(), []byte(nil)
	for _, name := range slices.Sorted(maps.Keys(base)) {
		if ctx.Err() != nil {
			return "", context.Cause(ctx)
		}
		s, known := sums[name]
		if !known {
			v := base[name]
			contents = slices.Grow(contents[:0], int(v.Meta.Bytes()))[:v.Meta.Bytes()]
			if err := x.Read(v, contents); err != nil {
				return "", err
			}
			s = sha256.Sum256(contents)
		}
		h.Write([]byte(name + "\x00"))
		h.Write(s[:])
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

// Source is where the values are from, as [Open] reads it, with an absolute path; "" where all are
// by rule.
func (x *Values) Source() (string, error) {
	s := x.source
	if s.File == "" {
		return "", nil
	}
	full, err := filepath.Abs(s.File)
	if err != nil {
		return "", readError(err)
	}
	s.File = full
	return s.String(), nil
}

// Held is Read for variables in any order, also where the file is compressed: its contents are in
// memory then.
func (x *Values) Held(ctx context.Context) (Contents, error) {
	if x.stream == nil {
		return x.Read, nil
	}
	all := map[string][]byte{}
	if err := x.stream.each(ctx, func(name string, contents []byte) { all[name] = contents }); err != nil {
		return nil, err
	}
	return func(v *graph.Value, dst []byte) error {
		b, given := all[v.Name]
		if !given {
			return x.Read(v, dst)
		}
		copy(dst, b)
		return nil
	}, x.stream.Rewind()
}
