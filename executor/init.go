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
	if err := p.rt.usable(); err != nil {
		return err
	}
	needs := p.lastingNeeds()
	for _, v := range p.Graph().Vars {
		if err := context.Cause(ctx); err != nil {
			return err
		}
		t := p.Var(v.Name)
		if err := p.rt.Residency.FillWith(t, func(dst []byte) error { return write(v, dst) }); err != nil {
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
