package berth

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/berth-ml/berth/checkpoint"
	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/engine/models"
	"github.com/berth-ml/berth/engine/safetensors"
	"github.com/berth-ml/berth/engine/shape"
	"github.com/berth-ml/berth/executor"
	"github.com/berth-ml/berth/residency"
)

// contents fills dst, which is zeroed, with a variable's bytes.
type contents func(v *graph.Value, dst []byte) error

// snapshotContents reads a checkpoint. Every variable of the graph must be in
// it with the same shape, except metrics: an epoch's losses are of no use to a
// run whose epochs are different.
func snapshotContents(s *checkpoint.Snapshot) contents {
	return func(v *graph.Value, dst []byte) error {
		have, ok := s.Tensor(v.Name)
		switch {
		case ok && have.Meta.Equal(v.Meta):
			return s.Read(v.Name, 0, dst)
		case v.Role == graph.Metric:
			return nil
		case ok:
			return fmt.Errorf("%w: checkpoint %d has %s as %v, the model as %v", ErrChanged, s.Manifest.ID, v.Name, have.Meta, v.Meta)
		}
		return fmt.Errorf("%w: checkpoint %d has no %s", ErrChanged, s.Manifest.ID, v.Name)
	}
}

// initialiser gives variables their first contents: by their rule, or from a
// file of weights.
type initialiser struct {
	seed   uint64
	file   *safetensors.File
	prefix string
	close  func() error
}

// initial opens FILE[:PREFIX], or nothing for "".
func (r *Run) initial(init string) (*initialiser, error) {
	c := &initialiser{seed: r.Config.Seed, close: func() error { return nil }}
	if init == "" {
		return c, nil
	}
	path, prefix := initFile(init)
	c.prefix = prefix
	f, err := safetensors.Open(path)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrInit, err)
	}
	c.file, c.close = f, f.Close
	if err := c.check(r.Plan.Graph.Vars); err != nil {
		return nil, errors.Join(fmt.Errorf("%w: %s does not fit the model: %w", ErrInit, init, err), f.Close())
	}
	return c, nil
}

// initFile splits FILE[:PREFIX]; a file whose name has a colon comes first.
func initFile(init string) (path, prefix string) {
	if _, err := os.Stat(init); err != nil {
		if i := strings.LastIndexByte(init, ':'); i >= 0 {
			return init[:i], init[i+1:]
		}
	}
	return init, ""
}

// check lists every parameter that the file lacks or has in another shape.
func (c *initialiser) check(vars []*graph.Value) error {
	var wrong []string
	for _, v := range vars {
		if v.Role != graph.Parameter {
			continue
		}
		have, err := c.file.Lookup(c.prefix + v.Name)
		switch {
		case err != nil:
			wrong = append(wrong, fmt.Sprintf("%s%s is missing", c.prefix, v.Name))
		case !have.Shape.Equal(v.Meta.Shape):
			wrong = append(wrong, fmt.Sprintf("%s%s is %v, the model has %v", c.prefix, v.Name, have.Shape, v.Meta.Shape))
		}
	}
	if len(wrong) == 0 {
		return nil
	}
	return errors.New(strings.Join(wrong, "; "))
}

// read gives a variable its first contents.
func (c *initialiser) read(v *graph.Value, dst []byte) error {
	given := v.Role == graph.Parameter
	if c.file != nil && v.Role == graph.Statistic {
		_, err := c.file.Lookup(c.prefix + v.Name)
		given = err == nil
	}
	if c.file == nil || !given {
		models.Fill(v, c.seed, dst)
		return nil
	}
	return c.file.ReadFloat32(c.prefix+v.Name, shape.View[float32](dst))
}

// weightsHash is SHA-256 over parameters and batchnorm statistics in bytewise
// order of their names: each one's name, then its little-endian bytes.
func weightsHash(ctx context.Context, rt *executor.Runtime, p *executor.Program) (string, error) {
	var vars []*graph.Value
	var ts []*residency.Tensor
	for _, v := range p.Graph().Vars {
		if exported(v) {
			vars = append(vars, v)
			ts = append(ts, p.Var(v.Name))
		}
	}
	if err := rt.Residency.PullBack(ctx, residency.Epoch, ts...); err != nil {
		return "", err
	}
	slices.SortFunc(vars, func(a, b *graph.Value) int { return strings.Compare(a.Name, b.Name) })
	h := sha256.New()
	for _, v := range vars {
		h.Write([]byte(v.Name))
		err := rt.Residency.View(p.Var(v.Name), func(b []byte) error {
			h.Write(b)
			return nil
		})
		if err != nil {
			return "", err
		}
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}
