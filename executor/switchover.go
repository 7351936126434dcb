package executor

import (
	"context"

	"github.com/berth-ml/berth/engine/device"
	"github.com/berth-ml/berth/internal/stop"
	"github.com/berth-ml/berth/residency"
)

// Refused is the failures of compilations beside steps, once the last one of a program
// has ended: these segments stay op by op, or did until the program was closed. Each is
// returned once.
func (r *Runtime) Refused() (list []error) {
	list, r.refused = r.refused, nil
	for _, p := range r.programs {
		list = append(list, p.beside.takeRefused()...)
	}
	return list
}

// CompiledFrom is the step from which on all segments run compiled that could be
// compiled so far; 0: none does. Without LoadOptions.Beside it is 0.
func (p *Program) CompiledFrom() Ticket { return p.switched }

// keepUp starts compiling with the first step. Later it switches over to the executables
// that are ready: the steps under way end before, so that both forms never need memory at
// once.
func (p *Program) keepUp(ctx context.Context) error {
	b := p.beside
	if b.over == nil {
		b.begin(&p.rt.compiler)
	}
	if !b.fresh.Load() {
		return nil
	}
	if err := p.Drain(ctx); err != nil {
		return err
	}
	ready := b.take()
	for k, x := range ready {
		p.exes[k] = x
	}
	if err := p.expandAnew(); err != nil {
		return err
	}
	p.switched = p.Next()
	return p.dropCalls(ready)
}

// expandAnew prepares the steps of each size again, with the executables that there are.
func (p *Program) expandAnew() error {
	before := p.sizes
	p.sizes, p.stop = nil, stop.When(nil)
	for _, e := range before {
		if err := p.expand(e.stepSize); err != nil {
			p.sizes = before
			return err
		}
	}
	return nil
}

// dropCalls forgets the calls of variants that are compiled now, and their temporaries.
func (p *Program) dropCalls(of map[compiled]device.Executable) error {
	over := map[*residency.Tensor]bool{}
	for k := range of {
		p.calls[k].release()
		for _, t := range p.calls[k].temps {
			over[t] = true
		}
		delete(p.calls, k)
	}
	p.rt.Residency.SetUses(nil) // the order may have the temporaries
	p.rt.expected = nil
	var list []*residency.Tensor
	for k, t := range p.tensors {
		if over[t] {
			delete(p.tensors, k)
			list = append(list, t)
		}
	}
	return p.rt.Residency.Forget(list...)
}
