package executor

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/berth-ml/berth/engine/device"
	"github.com/berth-ml/berth/internal/stop"
	"github.com/berth-ml/berth/residency"
)

// Uneven gives, by device, the seconds of its passes in a full step, where these have for some time differed from those that
// the plan counts with: see [balance.Stages]. It is false unless LoadOptions.Balance asks for Stages. The next Wait
// overwrites the list. The caller then calls Recut, or KeepCut.
func (p *Program) Uneven() (seconds []float64, ok bool) {
	if p.stages == nil {
		return nil, false
	}
	return p.stages.Uneven()
}

// KeepCut says that no other plan is worth a change, until the times of stages change, and how long it took to find out.
func (p *Program) KeepCut(took time.Duration) { p.stages.Keep(took) }

// Recut has the steps to come run by other plans of the same model, on the same devices: o is options with which the program
// could have been loaded, under the same name. Variables go to the devices that use them now, from the one that has them,
// and the others free them. No step may be under way. After an error before the first of them is copied, the plans are as
// before; then undone is true.
func (p *Program) Recut(ctx context.Context, o LoadOptions) (undone bool, err error) {
	if err := p.usable(); err != nil {
		return true, err
	}
	if p.stages == nil || o.Net != p.opt.Net || !o.Full.Movable() {
		return true, fmt.Errorf("%w: %s cannot run by another plan: load it with Balance.Stages, and give a plan that is movable",
			ErrOptions, p.Graph().Name)
	}
	if _, _, same := p.opt.Full.Moved(o.Full); !same {
		return true, fmt.Errorf("%w: %s and the other plan have other variables: give a plan of the same graph",
			ErrOptions, p.Graph().Name)
	}
	if err := p.Drain(ctx); err != nil {
		return false, err
	}
	memory := slices.Clone(p.Memory())
	if err := p.planAnew(o); err != nil {
		return true, err
	}
	p.cover(memory)
	p.covered = memory
	if err := p.forgetUnused(); err != nil {
		return false, err
	}
	if err := p.moveLasting(ctx); err != nil {
		return false, err
	}
	p.stages.Begin(p.opt.Full.PassSeconds())
	p.watch()
	return false, nil
}

// planAnew prepares the steps of all sizes by other plans. After an error, all is as before.
func (p *Program) planAnew(o LoadOptions) (err error) {
	before, tensors := *p, maps.Clone(p.tensors)
	p.opt, p.stop, p.sizes = o, stop.When(o.Stop), nil
	p.exes, p.calls = map[compiled]device.Executable{}, map[compiled]*callsOn{}
	defer func() {
		if err == nil {
			before.release()
			p.opt.Stop, p.stop = nil, stop.When(nil) // who gave it may be gone
			return
		}
		p.release()
		var anew []*residency.Tensor
		for k, t := range p.tensors {
			if tensors[k] == nil {
				delete(p.tensors, k)
				delete(p.lasting, t)
				anew = append(anew, t)
			}
		}
		*p = before
		err = errors.Join(err, p.rt.Residency.Forget(anew...))
	}()
	for _, size := range o.sizes() {
		l, err := p.list(size)
		if err == nil {
			err = p.expand(l)
		}
		if err != nil {
			return err
		}
	}
	p.schedule, err = o.Full.ScheduleOf(o.Full.Microbatches)
	p.latest = nil
	return err
}

// forgetUnused frees the tensors that no step uses any more: those that crossed the cuts of before.
func (p *Program) forgetUnused() error {
	used := map[*residency.Tensor]bool{}
	for _, t := range p.vars {
		used[t] = true
	}
	for _, e := range p.sizes {
		for _, t := range e.tasks {
			for _, n := range t.needs {
				used[n.Tensor] = true
			}
		}
		for i := range e.feeds {
			used[e.feeds[i].tensor] = true
		}
	}
	p.rt.Residency.SetUses(nil) // the order may have them
	p.rt.expected = nil
	var over []*residency.Tensor
	for k, t := range p.tensors {
		if !used[t] {
			delete(p.tensors, k)
			delete(p.lasting, t)
			over = append(over, t)
		}
	}
	return p.rt.Residency.Forget(over...)
}

// moveLasting brings variables and constants to the devices that use them, and frees them elsewhere. Where a device has no
// room before others have left it, they come after these. What finds none stays where it is, and comes with the next step.
func (p *Program) moveLasting(ctx context.Context) error {
	left := p.lastingUses()
	for moved := true; moved && len(left) > 0; {
		for _, needs := range left {
			if err := p.rt.Residency.MoveIn(ctx, needs); err != nil {
				return err
			}
		}
		if err := p.rt.Residency.AwaitMoves(ctx); err != nil {
			return err
		}
		if err := errors.Join(p.rt.Residency.Settle()...); err != nil {
			return p.rt.fail(err)
		}
		before := len(left)
		left = slices.DeleteFunc(left, func(needs []residency.Need) bool { return p.rt.Residency.Confine(needs) })
		moved = len(left) < before
	}
	return nil
}

// lastingUses are the uses of each variable and constant, as needs that read it: those of the devices that write it come
// first.
func (p *Program) lastingUses() (list [][]residency.Need) {
	type use struct{ reads, writes []residency.Need }
	uses := map[*residency.Tensor]*use{}
	var order []*residency.Tensor
	add := func(to *[]residency.Need, n residency.Need) {
		if n.Mode = residency.Read; !slices.Contains(*to, n) {
			*to = append(*to, n)
		}
	}
	for _, e := range p.sizes {
		for _, t := range e.tasks {
			for _, n := range t.needs {
				if !p.lasting[n.Tensor] {
					continue
				}
				u := uses[n.Tensor]
				if u == nil {
					u = &use{}
					uses[n.Tensor] = u
					order = append(order, n.Tensor)
				}
				if n.Mode&residency.Write != 0 {
					add(&u.writes, n)
				} else {
					add(&u.reads, n)
				}
			}
		}
	}
	for _, t := range order {
		u := uses[t]
		for _, n := range u.reads {
			add(&u.writes, n)
		}
		list = append(list, u.writes)
	}
	return list
}
