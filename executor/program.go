package executor

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/berth-ml/berth/engine/device"
	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/executor/schedule"
	"github.com/berth-ml/berth/partition"
	"github.com/berth-ml/berth/residency"
)

// ErrOptions is the cause of errors about options that no program can have.
var ErrOptions = errors.New("program cannot be loaded")

// LoadOptions says what to run.
type LoadOptions struct {
	// Net prefixes the names of tensors that belong to this program alone. No
	// two programs of a runtime have the same.
	Net string
	// Full is the plan of a microbatch of full size; its Update phase is for a
	// full batch.
	Full *partition.Plan
	// Tail is the same cut for an epoch's last batch: its Forward and Backward
	// are for that batch's last, smaller microbatch. Nil if every batch is full.
	Tail *partition.Plan
	// LastMicrobatches is how many microbatches an epoch's last batch has, the
	// one of the tail's size included. Without a Tail it means nothing.
	LastMicrobatches int
	// Schedule names how microbatches are ordered: gpipe or 1f1b; empty runs
	// Forward (and Update) only.
	Schedule string
	// Constant gives the bytes of a per-microbatch constant.
	Constant func(v *graph.Value, microbatch int) []byte
	// Fetch keeps the graph's outputs after a step, for the caller to pull back.
	Fetch bool
	// CheckFinite fails at the first node whose output is not finite, for
	// finding where a run went wrong: of a plan's Forward, for nothing is
	// updated then.
	CheckFinite bool
	// Stop is asked now and then while the program is loaded, which ends with
	// its error. Nil means never.
	Stop func() error
}

// Program is a plan compiled for a runtime.
type Program struct {
	rt      *Runtime
	opt     LoadOptions
	exes    map[exeKey]device.Executable
	tensors map[residency.Key]*residency.Tensor
	lasting map[*residency.Tensor]bool // variables and constants: they outlive a step
	inputs  []*graph.Value
	sizes   []*expansion // the steps there are: the full one, and an epoch's last

	inflight [ahead]flight
	steps    uint64
}

type exeKey struct {
	tail    bool
	segment int
	later   bool
}

// Load compiles a plan and declares its tensors. Nothing is copied yet.
func (r *Runtime) Load(o LoadOptions) (*Program, error) {
	p := &Program{
		rt: r, opt: o, inputs: fedInputs(o.Full.Graph),
		exes:    map[exeKey]device.Executable{},
		tensors: map[residency.Key]*residency.Tensor{},
		lasting: map[*residency.Tensor]bool{},
	}
	if err := p.check(); err != nil {
		return nil, fmt.Errorf("%w: %s: %w", ErrOptions, o.Full.Graph.Name, err)
	}
	for _, v := range o.Full.Graph.Vars {
		if _, err := p.tensor(v, 0, false); err != nil {
			return nil, err
		}
	}
	if err := p.expand(o.Full.Microbatches, false); err != nil {
		return nil, err
	}
	if o.Tail != nil {
		if err := p.expand(o.LastMicrobatches, true); err != nil {
			return nil, err
		}
	}
	r.programs = append(r.programs, p)
	return p, nil
}

// check finds options that cannot be.
func (p *Program) check() error {
	o := &p.opt
	if err := p.rt.usable(); err != nil {
		return err
	}
	for _, other := range p.rt.programs {
		if other.opt.Net == o.Net {
			return fmt.Errorf("the runtime has a program %q: give this one another name", o.Net)
		}
	}
	if o.Tail != nil && (o.LastMicrobatches < 1 || o.LastMicrobatches > o.Full.Microbatches) {
		return fmt.Errorf("%d microbatches in the last batch: give 1 to %d, as many as a full one has", o.LastMicrobatches, o.Full.Microbatches)
	}
	for i := range o.Full.Segments {
		seg := &o.Full.Segments[i]
		if seg.Device >= len(p.rt.Devices) {
			return fmt.Errorf("%s is for device %d of %d: plan with the devices of the runtime", seg.Name, seg.Device, len(p.rt.Devices))
		}
		if seg.Phases.Has(graph.Backward) && o.Schedule == "" {
			return fmt.Errorf("%s needs a schedule: give one of %v", seg.Name, schedule.Names())
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

// executable compiles a variant of a segment; a device shares what has the
// same signature.
func (p *Program) executable(seg *partition.Segment, later, tail bool) (device.Executable, error) {
	k := exeKey{tail, seg.ID, later}
	if x := p.exes[k]; x != nil {
		return x, nil
	}
	v, dev := variant(seg, later), p.rt.Devices[seg.Device]
	o := device.CompileOptions{Alias: v.Alias, CheckFinite: p.opt.CheckFinite, Stop: p.opt.Stop}
	x, err := dev.Compile(v.Graph, o)
	if errors.Is(err, device.ErrOutOfMemory) { // its temporaries found no room: give back what is only kept for reuse
		_ = p.rt.settle() // whose failure Step or Wait will report
		p.rt.Residency.Trim()
		x, err = dev.Compile(v.Graph, o)
	}
	if err != nil {
		return nil, fmt.Errorf("%s on %s: %w", seg.Name, dev.ID(), err)
	}
	p.exes[k] = x
	return x, nil
}

func variant(seg *partition.Segment, later bool) *partition.Variant {
	if later {
		return &seg.Later
	}
	return &seg.First
}

// Inputs are the values that a batch feeds, in the order of Batch.Fields. The
// caller must not change the list.
func (p *Program) Inputs() []*graph.Value { return p.inputs }

func fedInputs(g *graph.Graph) []*graph.Value {
	var in []*graph.Value
	for _, v := range g.Inputs {
		if !v.PerMicrobatch {
			in = append(in, v)
		}
	}
	return in
}

// Graph is the graph of a full microbatch.
func (p *Program) Graph() *graph.Graph { return p.opt.Full.Graph }

// Var is the tensor of a variable, nil if the graph has none of that name.
func (p *Program) Var(name string) *residency.Tensor {
	return p.tensors[residency.Key{Value: name}]
}

// Init gives every variable its contents and starts copying it to where steps
// use it, and the constants too. write gets dst zeroed. It is called for one
// variable after the other, and the host's bytes of each are given back as soon
// as they have been copied, so that the host holds a few of them at most.
// What finds no room on its device stays on the host.
func (p *Program) Init(ctx context.Context, write func(v *graph.Value, dst []byte) error) error {
	if err := p.rt.usable(); err != nil {
		return err
	}
	needs := p.lastingNeeds()
	for _, v := range p.Graph().Vars {
		t := p.Var(v.Name)
		if err := p.rt.Residency.FillWith(t, func(dst []byte) error { return write(v, dst) }); err != nil {
			return err
		}
		if err := p.rt.Residency.MoveIn(ctx, needs[t]); err != nil {
			return err
		}
		delete(needs, t)
	}
	for _, t := range p.tensors {
		if err := p.rt.Residency.MoveIn(ctx, needs[t]); err != nil {
			return err
		}
	}
	return nil
}

// lastingNeeds is what the tasks of all steps read of variables and constants.
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

// Output is the tensor of one of the graph's outputs after a step of that many
// samples, of its last microbatch, which LoadOptions.Fetch kept. The next step
// overwrites it.
func (p *Program) Output(name string, samples int) (*residency.Tensor, error) {
	e, err := p.sized(samples)
	if err != nil {
		return nil, err
	}
	for _, v := range p.plan(e.tail).Graph.Outputs {
		if v.Name == name && p.opt.Fetch {
			return p.tensor(v, e.microbatches-1, e.tail)
		}
	}
	return nil, fmt.Errorf("%s keeps no output %q: load it with LoadOptions.Fetch, and name an output of its graph", p.Graph().Name, name)
}

func (p *Program) plan(tail bool) *partition.Plan {
	if tail {
		return p.opt.Tail
	}
	return p.opt.Full
}

// tensor is the record of a value's instance. Variables are shared by all
// programs; sums and what the Update phase computes exist once per step; the
// rest once per microbatch, apart for the two sizes of microbatch.
func (p *Program) tensor(v *graph.Value, microbatch int, tail bool) (*residency.Tensor, error) {
	plan := p.plan(tail)
	k := residency.Key{Net: p.opt.Net, Value: v.Name, Microbatch: microbatch}
	switch {
	case v.Kind == graph.Variable:
		k = residency.Key{Value: v.Name}
	case !plan.PerMicrobatch(v):
		k.Microbatch = 0
	case tail:
		k.Net += ".tail"
	}
	if t := p.tensors[k]; t != nil {
		return t, nil
	}
	t, err := p.rt.Residency.Declare(k, v.Meta, plan.Usage(v))
	if err != nil {
		return nil, err
	}
	p.tensors[k] = t
	p.lasting[t] = v.Kind == graph.Variable || v.PerMicrobatch
	if v.PerMicrobatch {
		return t, p.fillConstant(t, v, microbatch)
	}
	return t, nil
}

// fillConstant gives a per-microbatch constant its contents.
func (p *Program) fillConstant(t *residency.Tensor, v *graph.Value, microbatch int) error {
	if p.opt.Constant == nil {
		return fmt.Errorf("%w: %s: %s has no contents: give LoadOptions.Constant", ErrOptions, p.Graph().Name, v.Name)
	}
	return p.rt.Residency.Fill(t, p.opt.Constant(v, microbatch))
}

// Schedule is the order in which a full step's microbatches run.
func (p *Program) Schedule() schedule.Schedule { return p.sizes[0].schedule }
