package executor

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/berth-ml/berth/engine/device"
	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/executor/balance"
	"github.com/berth-ml/berth/executor/schedule"
	"github.com/berth-ml/berth/internal/stop"
	"github.com/berth-ml/berth/partition"
	"github.com/berth-ml/berth/residency"
)

// Program is a plan compiled for a runtime, which knows it by its name. Whoever loaded it
// closes it.
type Program struct {
	rt      *Runtime
	opt     LoadOptions
	exes    map[compiled]device.Executable
	calls   map[compiled]*callsOn // of the segments that run op by op
	beside  *beside               // nil unless LoadOptions.Beside
	tensors map[residency.Key]*residency.Tensor
	vars    map[string]*residency.Tensor // by the name of the variable
	lasting map[*residency.Tensor]bool   // variables and constants: they outlive a step
	users   partition.Holders            // the ranks whose launches use each variable
	inputs  []*graph.Value

	schedule schedule.Schedule
	sizes    []*expansion // of a step: a full batch, and an epoch's last; or by bucket

	stop      *stop.Check // of Load
	inflight  flights     // the steps under way
	steps     uint64
	latest    *expansion // of the newest step that was queued; nil before
	times     *passTimes
	balancing *balancing
	stages    *balance.Stages      // nil: blocks stay where they are
	covered   []partition.Forecast // the memory of the plans so far, once blocks have moved
	switched  Ticket               // the first step after the newest change from op by op to compiled; 0: there was none
	half      bool                 // a step was aborted of which a part of the update had ended
	closed    bool
}

// usable is nil while steps can be queued, else the reason why not.
func (p *Program) usable() error {
	if p.closed {
		return ErrClosed
	}
	return p.rt.usable()
}

// Inputs are the values that a batch feeds, in the order of Batch.Fields. The
// caller must not change the list.
func (p *Program) Inputs() []*graph.Value { return p.inputs }

// Residency manages the program's tensors.
func (p *Program) Residency() *residency.Tenant { return p.rt.Residency }

// Runtime is the one that the program was loaded by.
func (p *Program) Runtime() *Runtime { return p.rt }

// Graph is the graph of a full microbatch.
func (p *Program) Graph() *graph.Graph { return p.opt.Full.Graph }

// Var is the tensor of a variable, nil if the graph has none of that name, or this rank has
// no use for it.
func (p *Program) Var(name string) *residency.Tensor {
	return p.vars[name]
}

// Schedule is the order in which a full step's microbatches run.
func (p *Program) Schedule() schedule.Schedule { return p.schedule }

// sized finds the step for that many samples of a bucket.
func (p *Program) sized(samples, bucket int) (*expansion, error) {
	for _, e := range p.sizes {
		if e.samples == samples && e.bucket == bucket {
			return e, nil
		}
	}
	text := fmt.Sprint(p.sizes[0].samples)
	if n := len(p.opt.Buckets); n > 0 {
		return nil, fmt.Errorf("%w: it has %d samples for bucket %d; give %s samples, and a bucket from 0 to %d", ErrBatch, samples, bucket, text, n-1)
	}
	if len(p.sizes) > 1 {
		text += fmt.Sprintf(", or %d in an epoch's last batch", p.sizes[1].samples)
	}
	return nil, fmt.Errorf("%w: it has %d samples; give %s", ErrBatch, samples, text)
}

// Load compiles a plan and declares its tensors. Nothing is copied yet. The caller
// may Close the program before the runtime.
func (r *Runtime) Load(o LoadOptions) (*Program, error) {
	p := &Program{
		rt: r, opt: o, inputs: fedInputs(o.Full.Graph), stop: stop.When(o.Stop),
		exes: map[compiled]device.Executable{}, calls: map[compiled]*callsOn{},
		tensors: map[residency.Key]*residency.Tensor{},
		vars:    map[string]*residency.Tensor{},
		lasting: map[*residency.Tensor]bool{}, users: partition.Holders{},
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
	r.programs[o.Net] = p
	return p, nil
}

// load fills in the program's tables.
func (p *Program) load() (err error) {
	full := p.opt.Full
	var sizes []*listed
	for _, size := range p.opt.sizes() {
		l, err := p.list(size)
		if err != nil {
			return err
		}
		if sizes = append(sizes, l); l.exchange != nil {
			p.users.Join(l.exchange.Users())
		}
	}
	for _, v := range stop.Each(p.stop, full.Graph.Vars) {
		if !p.has(v) {
			continue
		}
		if _, err := p.tensor(full.Instance(v, 0, false)); err != nil {
			return err
		}
	}
	if p.schedule, err = full.ScheduleOf(full.Microbatches); err != nil {
		return err
	}
	for _, l := range sizes {
		if err := p.expand(l); err != nil {
			return err
		}
	}
	if err := p.beginBalance(); err != nil {
		return err
	}
	p.holdFirst()
	return nil
}

// check refuses options that no program can have.
func (p *Program) check() error {
	o := &p.opt
	if err := p.rt.usable(); err != nil {
		return err
	}
	if p.rt.programs[o.Net] != nil {
		return fmt.Errorf("the runtime already has a program named %q: give this one another name", o.Net)
	}
	if o.Tail != nil && (o.LastMicrobatches < 1 || o.LastMicrobatches > o.Full.Microbatches) {
		return fmt.Errorf("the last batch has %d microbatches: give it 1 to %d; a full batch has the most", o.LastMicrobatches, o.Full.Microbatches)
	}
	if n := len(o.Buckets); n > 0 && (o.Buckets[n-1] != o.Full || o.Tail != nil) {
		return errors.New("with Buckets, the last of them must be the plan Full, and Tail must be nil")
	}
	if i := slices.IndexFunc(o.Full.Graph.Vars, func(v *graph.Value) bool { return v.Role == graph.Cache }); i >= 0 && p.rt.exchange != nil {
		return fmt.Errorf("it has the cache %s, and ranks know variables by their names alone, which those of several caches share: load it in one process", o.Full.Graph.Vars[i].Name)
	}
	for _, d := range o.Full.Devices() {
		if d >= len(p.rt.Devices) || p.rt.Devices[d] == nil && p.rt.exchange.owns(d) {
			return fmt.Errorf("the plan has a stage on device %d of %d: plan with the devices of the runtime", d, len(p.rt.Devices))
		}
	}
	return checkInputs(p.inputs)
}

// checkInputs refuses inputs whose rows are not the samples of a microbatch.
func checkInputs(in []*graph.Value) error {
	if len(in) == 0 {
		return errors.New("the graph has no inputs: give it at least one")
	}
	for _, v := range in {
		if v.Meta.Shape.Rank() == 0 || v.Meta.Shape[0] != in[0].Meta.Shape[0] {
			return fmt.Errorf("input %s is %v, %s is %v: the first axis of each must be the samples", v.Name, v.Meta, in[0].Name, in[0].Meta)
		}
	}
	return nil
}

func fedInputs(g *graph.Graph) []*graph.Value {
	var in []*graph.Value
	for _, v := range g.Inputs {
		if !v.PerMicrobatch {
			in = append(in, v)
		}
	}
	return in
}

// Close waits for the program's steps and frees its tensors and executables. The
// variables that another program of the runtime has stay. The program must not be
// used afterwards, and a second call does nothing.
func (p *Program) Close() error {
	if p.closed || p.rt.closed {
		return nil
	}
	var err error
	if p.rt.failure == nil { // then everything has ended, and was reported
		err = p.Drain(context.Background())
	}
	p.closed = true
	delete(p.rt.programs, p.opt.Net)
	p.letGo()
	return errors.Join(err, p.unload())
}

// unload frees what loading made.
func (p *Program) unload() error {
	p.release()
	p.rt.refused = append(p.rt.refused, p.beside.takeRefused()...)
	p.rt.Residency.SetUses(nil) // the order may have the tensors
	p.rt.expected = nil
	var over []*residency.Tensor
	for _, t := range p.tensors {
		if n, variable := p.rt.users[t]; n > 1 {
			p.rt.users[t]--
			continue
		} else if variable {
			delete(p.rt.users, t)
		}
		over = append(over, t)
	}
	clear(p.tensors)
	return errors.Join(p.freeHosts(), p.rt.Residency.Forget(over...))
}

// release gives the executables back to their devices.
func (p *Program) release() {
	p.beside.end()
	for _, x := range p.exes {
		x.Release()
	}
	for _, c := range p.calls {
		c.release()
	}
	clear(p.exes)
	clear(p.calls)
}

// Borrow records where the program's variables are. giveBack frees the copies that were made
// of them on the program's devices after that.
func (p *Program) Borrow() (giveBack func()) {
	type borrowed struct {
		device int
		t      *residency.Tensor
	}
	var list []borrowed
	for _, d := range p.opt.Full.Devices() {
		for _, v := range p.Graph().Vars {
			t := p.Var(v.Name)
			if at := p.rt.on[d].index; t != nil && at >= 0 && !p.rt.Residency.Has(at, t) {
				list = append(list, borrowed{at, t})
			}
		}
	}
	return func() {
		for _, b := range list {
			p.rt.Residency.DropCopy(b.device, b.t)
		}
	}
}
