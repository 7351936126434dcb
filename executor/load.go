package executor

import (
	"errors"
	"fmt"

	"github.com/berth-ml/berth/engine/device"
	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/internal/stop"
	"github.com/berth-ml/berth/residency"
)

// Load compiles a plan and declares its tensors. Nothing is copied yet. The caller
// may Close the program before the runtime.
func (r *Runtime) Load(o LoadOptions) (*Program, error) {
	p := &Program{
		rt: r, opt: o, inputs: fedInputs(o.Full.Graph), stop: stop.When(o.Stop),
		loaded:  loaded{exes: map[compiled]device.Executable{}, calls: map[compiled]*callsOn{}},
		tensors: map[residency.Key]*residency.Tensor{},
		vars:    map[string]*residency.Tensor{},
		lasting: map[*residency.Tensor]bool{},
	}
	if o.Beside && !o.OpByOp {
		p.beside = &beside{ready: map[compiled]device.Executable{}}
	}
	if err := p.check(); err != nil {
		return nil, fmt.Errorf("%w: %s: %w", ErrOptions, o.Full.Graph.Name, err)
	}
	if err := p.load(); err != nil {
		return nil, errors.Join(err, p.unload())
	}
	r.programs[o.Net] = &p.loaded
	return p, nil
}

// load fills in the program's tables.
func (p *Program) load() (err error) {
	full := p.opt.Full
	for _, v := range stop.Each(p.stop, full.Graph.Vars) {
		if _, err := p.tensor(full.Instance(v, 0, false)); err != nil {
			return err
		}
	}
	if p.schedule, err = full.ScheduleOf(full.Microbatches); err != nil {
		return err
	}
	for _, size := range p.opt.sizes() {
		if err := p.expand(size); err != nil {
			return err
		}
	}
	return nil
}

// check refuses options that no program can have.
func (p *Program) check() error {
	o := &p.opt
	if err := p.rt.usable(); err != nil {
		return err
	}
	if p.rt.programs[o.Net] != nil {
		return fmt.Errorf("the runtime has a program %q: give this one another name", o.Net)
	}
	if o.Tail != nil && (o.LastMicrobatches < 1 || o.LastMicrobatches > o.Full.Microbatches) {
		return fmt.Errorf("%d microbatches in the last batch: give 1 to %d, as many as a full one has", o.LastMicrobatches, o.Full.Microbatches)
	}
	if n := len(o.Buckets); n > 0 && (o.Buckets[n-1] != o.Full || o.Tail != nil) {
		return errors.New("the last of its buckets is not the full plan, or it has a tail: give Full last in Buckets, and no Tail")
	}
	for _, d := range o.Full.Devices() {
		if d >= len(p.rt.Devices) || p.rt.Devices[d] == nil {
			return fmt.Errorf("the plan has a stage on device %d of %d: plan with the devices of the runtime", d, len(p.rt.Devices))
		}
	}
	return checkInputs(p.inputs)
}

// checkInputs refuses inputs whose rows are not the samples of a microbatch.
func checkInputs(in []*graph.Value) error {
	if len(in) == 0 {
		return errors.New("it has no inputs: there is nothing to step through")
	}
	for _, v := range in {
		if v.Meta.Shape.Rank() == 0 || v.Meta.Shape[0] != in[0].Meta.Shape[0] {
			return fmt.Errorf("input %s is %v, %s is %v: the first axis of each must be the samples", v.Name, v.Meta, in[0].Name, in[0].Meta)
		}
	}
	return nil
}
