package ranks

import (
	"context"
	"math/bits"

	"github.com/berth-ml/berth/engine/device"
	"github.com/berth-ml/berth/engine/shape"
)

// Reduction sums vectors of all ranks by a fixed binary tree over them, whose left
// subtree has the largest power of two below its number of ranks. So the result is that
// of one process, bit for bit.
//
// Where the ranks are a power of two, neighbours exchange halves, then pairs of
// neighbours exchange quarters, and so on (recursive halving), and gather them the
// other way round. Otherwise each rank gets its slice from all others. A rank sends
// 2n(R-1)/R of n bytes in either case.
type Reduction struct {
	world Transport
	add   func(y, a, b []float32) // y = a + b
	chunk int                     // the most elements of a message: they are added while the next ones come
	parts []float32               // what came from others
	work  func(Transport)         // is run, and made once, so that a sum allocates nothing

	// Of a sum.
	ctx       context.Context
	x         []float32
	transport Transport // the world, or the one of a Runner's work
	events    []device.Event
	err       error
}

// usualChunk is one MiB.
const usualChunk = 1 << 18

// NewReduction prepares sums of vectors of up to so many elements, with that function
// for y = a + b. One goroutine uses the reduction, and not after an error.
func NewReduction(t Transport, elems int, add func(y, a, b []float32)) *Reduction {
	r := &Reduction{world: t, transport: t, add: add, chunk: usualChunk}
	r.work = r.run
	if n := t.Size(); n&(n-1) == 0 {
		r.parts = make([]float32, (elems+1)/2)
	} else {
		r.parts = make([]float32, n*r.slice(elems, 0).len())
	}
	return r
}

// span is the elements from lo to hi-1.
type span struct{ lo, hi int }

func (s span) len() int { return s.hi - s.lo }

// slice is that of a rank where each gets one.
func (r *Reduction) slice(elems, rank int) span {
	each := (elems + r.transport.Size() - 1) / r.transport.Size()
	return span{min(rank*each, elems), min((rank+1)*each, elems)}
}

// Sum replaces x by the sum over all ranks. All call it with equally many elements. Where the
// transport is a [Runner], its thread does all of it, as MPI's own functions do.
func (r *Reduction) Sum(ctx context.Context, x []float32) error {
	r.ctx, r.x = ctx, x
	if t, ok := r.world.(Runner); ok {
		if err := t.Run(r.work).Wait(ctx); err != nil {
			return err
		}
	} else {
		r.run(r.world)
	}
	return r.err
}

// run is Sum by that transport.
func (r *Reduction) run(t Transport) {
	r.transport = t
	if n := t.Size(); n&(n-1) == 0 {
		r.err = r.halve(r.ctx, r.x, 0, span{0, len(r.x)})
	} else {
		r.err = r.slices(r.ctx, r.x)
	}
}

// halve exchanges halves of what is left with a neighbour, goes on with the half that it keeps, and gets the sums of
// the other one back.
func (r *Reduction) halve(ctx context.Context, x []float32, round int, all span) error {
	if 1<<round == r.transport.Size() {
		return nil
	}
	peer := r.transport.Rank() ^ 1<<round
	mid := all.lo + all.len()/2
	keep, give := span{all.lo, mid}, span{mid, all.hi}
	if r.transport.Rank() > peer {
		keep, give = give, keep
	}
	r.send(peer, x[give.lo:give.hi])
	sent := len(r.events)
	parts := r.parts[:keep.len()]
	r.recv(peer, parts)
	mine := x[keep.lo:keep.hi]
	for _, e := range r.events[sent:] {
		if err := e.Wait(ctx); err != nil {
			return err
		}
		n := min(len(mine), r.chunk)
		r.add(mine[:n], mine[:n], parts[:n]) // a + b and b + a are the same bits
		mine, parts = mine[n:], parts[n:]
	}
	r.events = r.events[:sent]
	if err := r.wait(ctx); err != nil {
		return err
	}
	if err := r.halve(ctx, x, round+1, keep); err != nil {
		return err
	}
	r.send(peer, x[keep.lo:keep.hi])
	r.recv(peer, x[give.lo:give.hi])
	return r.wait(ctx)
}

// slices has each rank add up one slice.
func (r *Reduction) slices(ctx context.Context, x []float32) error {
	t := r.transport
	mine := r.slice(len(x), t.Rank())
	for i := range t.Size() {
		if i == t.Rank() {
			continue
		}
		s := r.slice(len(x), i)
		r.send(i, x[s.lo:s.hi])
		r.recv(i, r.part(i, mine))
	}
	if err := r.wait(ctx); err != nil {
		return err
	}
	copy(r.part(t.Rank(), mine), x[mine.lo:mine.hi])
	copy(x[mine.lo:mine.hi], r.tree(mine, 0, t.Size()))
	for i := range t.Size() {
		if i == t.Rank() {
			continue
		}
		s := r.slice(len(x), i)
		r.send(i, x[mine.lo:mine.hi])
		r.recv(i, x[s.lo:s.hi])
	}
	return r.wait(ctx)
}

// part is where a rank's part of a slice comes.
func (r *Reduction) part(rank int, s span) []float32 { return r.parts[rank*s.len():][:s.len()] }

// tree adds the parts of ranks from to to-1, in the place of the first.
func (r *Reduction) tree(s span, from, to int) []float32 {
	sum := r.part(from, s)
	if to-from > 1 {
		mid := from + 1<<(bits.Len(uint(to-from-1))-1)
		a, b := r.tree(s, from, mid), r.tree(s, mid, to)
		r.add(sum, a, b)
	}
	return sum
}

// send sends elements in chunks.
func (r *Reduction) send(to int, x []float32) {
	for len(x) > 0 {
		n := min(len(x), r.chunk)
		r.events = append(r.events, r.transport.Send(to, TagReduce, shape.Bytes(x[:n])))
		x = x[n:]
	}
}

// recv receives elements in chunks.
func (r *Reduction) recv(from int, x []float32) {
	for len(x) > 0 {
		n := min(len(x), r.chunk)
		r.events = append(r.events, r.transport.Recv(from, TagReduce, shape.Bytes(x[:n])))
		x = x[n:]
	}
}

// wait waits for all that was posted.
func (r *Reduction) wait(ctx context.Context) error {
	for _, e := range r.events {
		if err := e.Wait(ctx); err != nil {
			return err
		}
	}
	r.events = r.events[:0]
	return nil
}
