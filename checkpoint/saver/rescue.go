package saver

import (
	"context"
	"time"

	"github.com/berth-ml/berth/checkpoint"
	"github.com/berth-ml/berth/engine/graph"
)

// Rescue is Save after a step has failed: of the variables as they were before
// that step. They are read one after the other, and the disk is waited for. If one
// cannot be read, nothing is written. No save is under way.
func (s *Saver) Rescue(ctx context.Context, m checkpoint.Manifest) error {
	src := &rescued{state: s.state, ctx: ctx}
	for k := range src.parts {
		if err := src.read(k); err != nil {
			return failed(m.Step, err)
		}
	}
	return s.ended(s.store(ctx, ctx, m, src, time.Now(), false))
}

// rescued is a checkpoint's source after a failure. It holds one part.
type rescued struct {
	*state
	ctx  context.Context
	held int // the part, from 1; 0: none
	data []byte
}

// Tensors lists the variables.
func (r *rescued) Tensors() []checkpoint.Tensor { return r.list }

// Read copies bytes of a variable.
func (r *rescued) Read(name string, off int64, dst []byte) error {
	for i := r.at[name]; len(dst) > 0; {
		k := r.partOf(i, off)
		if r.held != k+1 {
			if err := r.read(k); err != nil {
				return err
			}
		}
		n := copy(dst, r.data[off-r.parts[k].begin:])
		off, dst = off+int64(n), dst[n:]
	}
	return nil
}

// read brings a part out. A parameter must be finite.
func (r *rescued) read(k int) error {
	r.held = 0
	err := r.manager.Salvage(r.ctx, r.tensors[k], func(b []byte) error {
		r.data = append(r.data[:0], b...)
		return nil
	})
	x := &r.list[r.parts[k].variable]
	if err == nil && x.Role == graph.Parameter.String() {
		err = finite(x, r.parts[k].begin, r.data)
	}
	if err == nil {
		r.held = k + 1
	}
	return err
}
