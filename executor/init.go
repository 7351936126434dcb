package executor

import (
	"context"
	"maps"
	"slices"
	"strings"

	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/residency"
)

// Init gives every variable its contents, and starts copying variables and
// constants to the devices that use them. It calls write for one variable after
// the other, to write all of dst. The host's bytes of each are freed as soon as
// they have been copied, so the host has few of them at a time, and none at the
// end. A tensor that finds no room on its device stays on the host.
func (p *Program) Init(ctx context.Context, write func(v *graph.Value, dst []byte) error) error {
	return p.init(ctx, write, nil)
}

// InitStreamed is Init, except that a variable that no task writes is read again
// by write whenever a device needs it: the host never keeps it. write must work
// from any goroutine until the runtime is closed.
func (p *Program) InitStreamed(ctx context.Context, write func(v *graph.Value, dst []byte) error) error {
	return p.init(ctx, write, p.unwritten())
}

// init gives every variable its contents. Those in streamed are read by write
// again and again.
func (p *Program) init(ctx context.Context, write func(v *graph.Value, dst []byte) error, streamed map[*residency.Tensor]bool) error {
	if err := p.rt.usable(); err != nil {
		return err
	}
	needs := p.lastingNeeds()
	for _, v := range p.Graph().Vars {
		if err := context.Cause(ctx); err != nil {
			return err
		}
		t := p.Var(v.Name)
		var err error
		if streamed[t] {
			err = p.rt.Residency.FromStore(t, contents{v, write}, v.Name)
		} else {
			err = p.rt.Residency.FillWith(t, func(dst []byte) error { return write(v, dst) })
		}
		if err != nil {
			return err
		}
		if err := p.rt.Residency.MoveIn(ctx, needs[t]); err != nil {
			return err
		}
		delete(needs, t)
	}
	constants := slices.SortedFunc(maps.Keys(needs), func(a, b *residency.Tensor) int { return strings.Compare(a.Name(), b.Name()) })
	for _, t := range constants {
		if err := p.rt.Residency.MoveIn(ctx, needs[t]); err != nil {
			return err
		}
	}
	return p.rt.Residency.AwaitMoves(ctx)
}

// contents is a store with the contents of one variable.
type contents struct {
	v     *graph.Value
	write func(v *graph.Value, dst []byte) error
}

// Read writes them to dst.
func (c contents) Read(_ string, dst []byte) error { return c.write(c.v, dst) }

// unwritten lists the lasting tensors that no task writes.
func (p *Program) unwritten() map[*residency.Tensor]bool {
	list := maps.Clone(p.lasting)
	for _, e := range p.sizes {
		for _, t := range e.tasks {
			for _, n := range t.needs {
				if n.Mode&residency.Write != 0 {
					delete(list, n.Tensor)
				}
			}
		}
	}
	return list
}

// lastingNeeds lists, per variable or constant, the devices on which tasks read
// it.
func (p *Program) lastingNeeds() map[*residency.Tensor][]residency.Need {
	needs := map[*residency.Tensor][]residency.Need{}
	for _, e := range p.sizes {
		for _, t := range e.tasks {
			for _, n := range t.needs {
				if !p.lasting[n.Tensor] || n.Mode&residency.Read == 0 {
					continue
				}
				if n.Mode = residency.Read; !slices.Contains(needs[n.Tensor], n) {
					needs[n.Tensor] = append(needs[n.Tensor], n)
				}
			}
		}
	}
	return needs
}
