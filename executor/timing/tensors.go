package timing

import (
	"context"
	"errors"

	"github.com/berth-ml/berth/engine/device"
	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/engine/models"
	"github.com/berth-ml/berth/engine/shape"
)

// memory takes the buffers of a task. Where the tensors of other tasks leave too
// little room, or none in one piece, it frees them all and takes the scratch first.
func (w *worker) memory(ctx context.Context, t *timed) (in, out []device.Buffer, scratch device.Buffer, err error) {
	temporary := bytes(t.exe.Memory().Temporary)
	in, out, err = w.tensors(ctx, t)
	if err == nil {
		scratch, err = w.alloc(temporary, device.Scratch)
	}
	if !errors.Is(err, device.ErrOutOfMemory) {
		return in, out, scratch, err
	}
	if err := w.free(); err != nil {
		return nil, nil, nil, err
	}
	if scratch, err = w.alloc(temporary, device.Scratch); err == nil {
		in, out, err = w.tensors(ctx, t)
	}
	if err != nil && scratch != nil {
		err = errors.Join(err, scratch.Free(w.stream.Record()))
	}
	return in, out, scratch, err
}

// bytes describes so many bytes of memory.
func bytes(n int64) shape.Meta { return shape.Meta{DType: shape.Uint8, Shape: shape.Of(int(n))} }

// tensors are the buffers of a task's inputs and outputs.
func (w *worker) tensors(ctx context.Context, t *timed) (in, out []device.Buffer, err error) {
	v := t.Variant
	limits := idLimits(v.Graph)
	for i, x := range t.In {
		b, err := w.tensor(ctx, t, x, *limits.At(v.Graph.Inputs[i]))
		if err != nil {
			return nil, nil, err
		}
		in = append(in, b)
	}
	for _, x := range t.Out {
		b, err := w.tensor(ctx, t, x, 1)
		if err != nil {
			return nil, nil, err
		}
		out = append(out, b)
	}
	return in, out, nil
}

// tensor is the buffer of a tensor. A new one has contents below limit, if they are
// whole numbers.
func (w *worker) tensor(ctx context.Context, t *timed, x Tensor, limit int) (device.Buffer, error) {
	if b := w.buffers[x]; b != nil {
		return b, nil
	}
	b, err := w.alloc(x.Value.Meta, t.Usage(x.Value))
	if err != nil {
		return nil, err
	}
	w.buffers[x] = b
	return b, w.fill(ctx, b, x.Value, limit)
}

// alloc takes memory; nil for no bytes.
func (w *worker) alloc(m shape.Meta, use device.Usage) (device.Buffer, error) {
	if m.Bytes() == 0 {
		return nil, nil
	}
	return w.stream.Alloc(m, use)
}

// free frees all tensors.
func (w *worker) free() error {
	var errs []error
	for _, b := range w.buffers {
		errs = append(errs, b.Free(w.stream.Record()))
	}
	clear(w.buffers)
	return errors.Join(errs...)
}

// fill copies made-up contents in.
func (w *worker) fill(ctx context.Context, b device.Buffer, v *graph.Value, limit int) error {
	h, err := w.dev.AllocHost(v.Meta.Bytes())
	if err != nil {
		return err
	}
	contents(v, limit, h.Bytes())
	err = w.stream.CopyIn(b, h)
	if err == nil {
		err = w.stream.Record().Wait(context.WithoutCancel(ctx))
	}
	return errors.Join(err, h.Free())
}

// contents makes up a tensor: the first values of variables, elsewhere positive
// numbers, so that everything stays finite.
func contents(v *graph.Value, limit int, dst []byte) {
	switch {
	case v.Kind == graph.Variable && v.Range == nil:
		const seed = 1
		models.Fill(v, seed, dst)
	case v.Meta.DType == shape.Float32:
		x := shape.View[float32](dst)
		for i := range x {
			x[i] = float32(1+mixed(i)%256) / 4096
		}
	case v.Meta.DType == shape.Int32 && limit > 1:
		x := shape.View[int32](dst)
		for i := range x {
			x[i] = int32(mixed(i) % uint32(limit))
		}
	default:
		clear(dst)
	}
}

// mixed is a hash of a number.
func mixed(i int) uint32 {
	x := uint32(i) * 2654435761
	return x ^ x>>15
}

// idLimits finds, for the whole numbers of a graph that name rows or classes, the
// number of those; 0 elsewhere.
func idLimits(g *graph.Graph) *graph.Table[int] {
	limits := graph.NewTable[int](g)
	for i := len(g.Nodes) - 1; i >= 0; i-- {
		n := g.Nodes[i]
		most := idLimit(n)
		if len(n.Out) > 0 && n.Out[0].Meta.DType == shape.Int32 {
			most = *limits.At(n.Out[0]) // the same ids in another shape
		}
		for _, v := range n.In {
			if at := limits.At(v); v.Meta.DType == shape.Int32 && most > 0 && (*at == 0 || most < *at) {
				*at = most
			}
		}
	}
	return limits
}

// idLimit is the number of rows or classes that a node's ids name, 0 if it has no
// ids.
func idLimit(n *graph.Node) int {
	first := func(v *graph.Value) int { return v.Meta.Shape[0] }
	last := func(v *graph.Value) int { return v.Meta.Shape[v.Meta.Shape.Rank()-1] }
	switch n.Op.Kind() {
	case "gather":
		return first(n.In[0])
	case "scatter_add":
		return first(n.Out[0])
	}
	for _, v := range n.In {
		if v.Meta.DType == shape.Float32 && v.Meta.Shape.Rank() > 0 {
			return last(v)
		}
	}
	return 0
}

// close frees everything.
func (w *worker) close() error {
	var errs []error
	if w.stream != nil {
		errs = append(errs, w.free(), w.stream.Close())
	}
	for _, t := range w.tasks {
		t.release()
	}
	return errors.Join(errs...)
}
