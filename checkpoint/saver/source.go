package saver

import (
	"context"
	"fmt"
	"slices"

	"github.com/berth-ml/berth/checkpoint"
	"github.com/berth-ml/berth/engine/device"
	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/engine/shape"
	"github.com/berth-ml/berth/residency"
)

// state is the variables of a run and their staging memory.
type state struct {
	bound   Bound
	staging *residency.Staging
	list    []checkpoint.Tensor
	at      map[string]int // index into list by name
	order   []int          // in which variables are copied
	bytes   int64
}

func newState(m *residency.Manager, g *graph.Graph, tensor func(name string) *residency.Tensor, bound Bound) *state {
	s := &state{bound: bound, at: map[string]int{}}
	var all []*residency.Tensor
	for i, v := range g.Vars {
		s.list = append(s.list, checkpoint.Tensor{Name: v.Name, Meta: v.Meta, Role: v.Role.String()})
		s.at[v.Name] = i
		s.order = append(s.order, i)
		s.bytes += v.Meta.Bytes()
		all = append(all, tensor(v.Name))
	}
	s.staging = m.NewStaging(all...)
	if bound == 0 {
		s.byNeed(g)
	}
	return s
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
		return update[s.list[b].Name] - update[s.list[a].Name]
	})
}

// source is a checkpoint's source: variables as they were when the save began.
type source struct {
	*state
	ctx  context.Context
	next int   // number of variables that are queued, in order
	area int64 // bytes of those that are queued and not yet read
}

// queue queues the copies that the staging area has room for; one variable is
// let through whatever its size.
func (c *source) queue() error {
	for ; c.next < len(c.list); c.next++ {
		i := c.order[c.next]
		n := c.list[i].Meta.Bytes()
		if c.bound > 0 && c.area > 0 && c.area+n > c.bound.room() {
			return nil
		}
		if err := c.staging.Queue(c.ctx, residency.Checkpoint, i); err != nil {
			return err
		}
		c.area += n
	}
	return nil
}

// wait waits for the copies that training could be waiting for.
func (c *source) wait() error {
	for _, i := range c.order[:c.next] {
		if err := c.staging.Wait(c.ctx, i); err != nil {
			return err
		}
	}
	return nil
}

// Tensors lists the variables.
func (c *source) Tensors() []checkpoint.Tensor { return c.list }

// Read copies a part of a variable, and frees the variable's memory after its
// last part.
func (c *source) Read(name string, off int64, dst []byte) error {
	i := c.at[name]
	if c.bound > 0 && i >= c.next {
		if err := c.queue(); err != nil {
			return err
		}
	}
	if err := c.staging.Wait(c.ctx, i); err != nil {
		return err
	}
	b, err := c.piece(i, off, len(dst))
	if err != nil {
		return err
	}
	copy(dst, b)
	if n := c.list[i].Meta.Bytes(); off+int64(len(dst)) == n && c.bound > 0 {
		c.area -= n
		c.staging.Free(i)
		return c.queue()
	}
	return nil
}

// Lend is Read where the whole state is staged: that stays as it is.
func (c *source) Lend(name string, off int64, n int) ([]byte, error) {
	i := c.at[name]
	if c.bound > 0 {
		return nil, nil
	}
	if err := c.staging.Wait(c.ctx, i); err != nil {
		return nil, err
	}
	return c.piece(i, off, n)
}

// piece is a part of a variable that has been copied. Parameters must be
// finite: a checkpoint of other weights would only look like a good one.
func (c *source) piece(i int, off int64, n int) ([]byte, error) {
	b := c.staging.Bytes(i)[off : off+int64(n)]
	if x := &c.list[i]; x.Role == graph.Parameter.String() {
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
