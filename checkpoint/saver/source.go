package saver

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/berth-ml/berth/checkpoint"
	"github.com/berth-ml/berth/engine/device"
	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/engine/shape"
	"github.com/berth-ml/berth/residency"
	"github.com/berth-ml/berth/residency/ledger"
)

// state is the variables of a run and their staging memory. The Saver owns it; each save reads it
// by a source of its own.
type state struct {
	bound   Bound
	staging *residency.Staging
	list    []checkpoint.Tensor
	at      map[string]int // index into list by name
	parts   []part         // of all variables in list, side by side
	order   []int          // in which parts are copied
	bytes   int64
	manager *residency.Tenant
	vars    []*graph.Value
	tensors []*residency.Tensor // by part; nil where another rank has it
	slots   []int               // by part, its index in staging
}

// part is a variable, or the range of one that the run has as a tensor of its own.
type part struct {
	variable   int   // index into list
	begin, end int64 // its bytes among the variable's
}

// Kept are the variables that a checkpoint has: all but the base of an adapter.
func Kept(vars []*graph.Value) []*graph.Value {
	return slices.DeleteFunc(slices.Clone(vars), func(v *graph.Value) bool { return v.Tagged(graph.BaseTag) })
}

func newState(m *residency.Tenant, g *graph.Graph, tensor func(name string) *residency.Tensor, bound Bound) *state {
	s := &state{bound: bound, at: map[string]int{}, vars: Kept(g.Vars)}
	var here []*residency.Tensor // of this rank
	for i, v := range s.vars {
		t := tensor(v.Name)
		s.tensors, s.slots = append(s.tensors, t), append(s.slots, len(here))
		if t != nil {
			here = append(here, t)
		}
		s.order = append(s.order, i)
		s.add(v)
	}
	s.manager, s.staging = m, m.NewStaging(here...)
	if bound == 0 {
		s.byNeed(g)
	}
	return s
}

// add appends a variable, or a range behind the one before it.
func (s *state) add(v *graph.Value) {
	whole := v.Whole()
	i, known := s.at[whole.Name]
	if !known {
		i = len(s.list)
		s.at[whole.Name] = i
		s.list = append(s.list, checkpoint.Tensor{Name: whole.Name, Meta: whole.Meta, Role: whole.Role.String()})
	}
	s.parts = append(s.parts, part{i, v.Offset(), v.Offset() + v.Meta.Bytes()})
	s.bytes += v.Meta.Bytes()
}

// byNeed orders copies as the next step is likely to overwrite variables:
// updates run right behind their gradients, of the last layer first. Variables
// that no step writes come last.
func (s *state) byNeed(g *graph.Graph) {
	at := make(map[*graph.Node]int, len(g.Nodes))
	for i, n := range g.Nodes {
		at[n] = 1 + i
	}
	update := map[string]int{}
	for _, a := range g.Assigns {
		update[a.Var.Name] = at[a.New.Node]
	}
	slices.SortStableFunc(s.order, func(a, b int) int {
		return update[s.vars[b].Name] - update[s.vars[a].Name]
	})
}

// partOf is the part of a variable that has a byte.
func (s *state) partOf(variable int, at int64) int {
	// The parts are sorted by variable and by their bytes: it is the first that ends behind the byte.
	k, _ := slices.BinarySearchFunc(s.parts, at, func(p part, at int64) int {
		return cmp.Or(cmp.Compare(p.variable, variable), cmp.Compare(p.end, at+1))
	})
	return k
}

// source is a checkpoint's source: variables as they were when the save began. Save makes it, and the
// goroutine that writes owns it from then on.
type source struct {
	*state
	ctx  context.Context
	of   []int          // by part, the rank that has it; nil: this process has all
	from map[int]Reader // by rank, what reads its parts
	rank int            // this one
	next int            // number of parts that are queued, in order
	area int64          // bytes of those that are queued and not yet read
	late int            // the part of a store that is queued, -1 if none is
}

// streams reports whether a part is read when it is saved, also where the whole
// state is staged: no step writes it, and the host need not have it.
func (c *source) streams(k int) bool { return c.bound == 0 && c.tensors[k].Streams() }

// queue queues the copies that the staging area has room for; one part is let
// through whatever its size.
func (c *source) queue() error {
	for ; c.next < len(c.parts); c.next++ {
		k := c.order[c.next]
		if !c.here(k) || c.streams(k) {
			continue
		}
		n := c.parts[k].end - c.parts[k].begin
		if c.bound > 0 && c.area > 0 && c.area+n > c.bound.room() {
			return nil
		}
		if err := c.staging.Queue(c.ctx, ledger.Checkpoint, c.slots[k]); err != nil {
			return err
		}
		c.area += n
	}
	return nil
}

// wait waits for the copies that training could be waiting for.
func (c *source) wait() error {
	for _, k := range c.order[:c.next] {
		if !c.here(k) {
			continue
		}
		if err := c.staging.Wait(c.ctx, c.slots[k]); err != nil {
			return err
		}
	}
	return nil
}

// Tensors lists the variables.
func (c *source) Tensors() []checkpoint.Tensor { return c.list }

// Read copies bytes of a variable.
func (c *source) Read(name string, off int64, dst []byte) error {
	i := c.at[name]
	for len(dst) > 0 {
		k := c.partOf(i, off)
		n := min(int64(len(dst)), c.parts[k].end-off)
		if err := c.readPart(k, off, dst[:n]); err != nil {
			return err
		}
		off, dst = off+n, dst[n:]
	}
	return nil
}

// readPart copies bytes of a part, from byte off of its variable on. It frees the
// part's memory after the last of them.
func (c *source) readPart(k int, off int64, dst []byte) error {
	if !c.here(k) {
		return c.readElsewhere(k, off, dst)
	}
	streams := c.streams(k)
	switch {
	case c.bound > 0 && k >= c.next:
		if err := c.queue(); err != nil {
			return err
		}
	case streams && c.late != k:
		if err := c.staging.Queue(c.ctx, ledger.Checkpoint, c.slots[k]); err != nil {
			return err
		}
		c.late = k
	}
	if err := c.staging.Wait(c.ctx, c.slots[k]); err != nil {
		return err
	}
	b, err := c.piece(k, off, len(dst))
	if err != nil {
		return err
	}
	copy(dst, b)
	switch p := c.parts[k]; {
	case off+int64(len(dst)) < p.end:
	case streams:
		c.staging.Free(c.slots[k])
		c.late = -1
	case c.bound > 0:
		c.area -= p.end - p.begin
		c.staging.Free(c.slots[k])
		return c.queue()
	}
	return nil
}

// Lend is Read where the whole state is staged, which stays as it is, and the bytes
// are side by side.
func (c *source) Lend(name string, off int64, n int) ([]byte, error) {
	if c.bound > 0 || n == 0 {
		return nil, nil
	}
	k := c.partOf(c.at[name], off)
	if off+int64(n) > c.parts[k].end || !c.here(k) || c.streams(k) {
		return nil, nil
	}
	if err := c.staging.Wait(c.ctx, c.slots[k]); err != nil {
		return nil, err
	}
	return c.piece(k, off, n)
}

// piece is bytes of a part that has been copied, from byte off of its variable on.
// Parameters must be finite: a checkpoint of other weights would only look like a
// good one.
func (c *source) piece(k int, off int64, n int) ([]byte, error) {
	p := c.parts[k]
	b := c.staging.Bytes(c.slots[k])[off-p.begin:][:n]
	if x := &c.list[p.variable]; x.Role == graph.Parameter.String() {
		return b, finite(x, off, b)
	}
	return b, nil
}

// finite fails if a piece of a parameter, from byte off on, has a number that
// is not finite.
func finite(x *checkpoint.Tensor, off int64, b []byte) error {
	for i, f := range shape.View[float32](b) {
		if f-f != 0 { // NaN for NaN and for both infinities
			return fmt.Errorf("%s[%d] is %v, %w", x.Name, int(off/4)+i, f, device.ErrNonFinite)
		}
	}
	return nil
}

// rescued is a checkpoint's source after a failure. It holds one part. Rescue makes it.
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
