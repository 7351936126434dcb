package executor

import (
	"context"
	"fmt"
	"slices"

	"github.com/berth-ml/berth/engine/device"
	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/engine/shape"
	"github.com/berth-ml/berth/executor/schedule"
	"github.com/berth-ml/berth/partition"
	"github.com/berth-ml/berth/residency"
)

// Options says what to run.
type Options struct {
	// Net prefixes the names of tensors that belong to this program alone.
	Net string
	// Full is the plan of a microbatch of full size; its Update phase is for a
	// full batch.
	Full *partition.Plan
	// Tail is the same cut for an epoch's last batch: its Forward and Backward
	// are for that batch's last, smaller microbatch. Nil if every batch is full.
	Tail *partition.Plan
	// LastMicrobatches is how many microbatches an epoch's last batch has, the
	// one of the tail's size included.
	LastMicrobatches int
	// Schedule names how microbatches are ordered: gpipe or 1f1b; empty runs
	// Forward (and Update) only.
	Schedule string
	// Constant gives the bytes of a per-microbatch constant.
	Constant func(v *graph.Value, microbatch int) []byte
	// Fetch keeps the graph's outputs after a step, for the caller to pull back.
	Fetch bool
	// CheckFinite fails at the first node whose output is not finite, for
	// finding where a run went wrong.
	CheckFinite bool
}

// Program is a plan compiled for a runtime.
type Program struct {
	rt        *Runtime
	opt       Options
	exes      map[exeKey]device.Executable
	full      *expansion
	last      *expansion // an epoch's last batch; nil if it is full
	tensors   map[residency.Key]*residency.Tensor
	constants []*residency.Tensor
	inflight  [2]flight
	steps     uint64
	views     map[viewKey]*device.HostView
}

type exeKey struct {
	tail    bool
	segment int
	later   bool
}

// Load compiles a plan and declares its tensors. Nothing is copied yet.
func (r *Runtime) Load(o Options) (*Program, error) {
	p := &Program{
		rt: r, opt: o,
		exes:    map[exeKey]device.Executable{},
		tensors: map[residency.Key]*residency.Tensor{},
		views:   map[viewKey]*device.HostView{},
	}
	if err := p.compile(o.Full, false); err != nil {
		return nil, err
	}
	if o.Tail != nil {
		if err := p.compile(o.Tail, true); err != nil {
			return nil, err
		}
	}
	for _, v := range o.Full.Graph.Vars {
		if _, err := p.tensor(v, 0, false); err != nil {
			return nil, err
		}
	}
	var err error
	if p.full, err = p.expand(o.Full.Microbatches, false); err != nil || o.Tail == nil {
		return p, err
	}
	p.last, err = p.expand(o.LastMicrobatches, true)
	return p, err
}

// compile compiles both variants of each segment; a device shares what has the
// same signature.
func (p *Program) compile(plan *partition.Plan, tail bool) error {
	for i := range plan.Segments {
		seg := &plan.Segments[i]
		for _, later := range []bool{false, true} {
			v := variant(seg, later)
			if later && plan.Microbatches == 1 || p.skips(seg) {
				continue
			}
			dev := p.rt.Devices[seg.Device]
			x, err := dev.Compile(v.Graph, device.CompileOptions{Alias: v.Alias, CheckFinite: p.opt.CheckFinite})
			if err != nil {
				return fmt.Errorf("%s on %s: %w", seg.Name, dev.ID(), err)
			}
			p.exes[exeKey{tail, seg.ID, later}] = x
		}
	}
	return nil
}

// skips tells whether the program leaves a segment's phase out.
func (p *Program) skips(seg *partition.Segment) bool {
	return p.opt.CheckFinite && seg.Phase != graph.Forward
}

func variant(seg *partition.Segment, later bool) *partition.Variant {
	if later {
		return &seg.Later
	}
	return &seg.First
}

// Inputs are the values that a batch feeds, in the order of Batch.Fields.
func (p *Program) Inputs() []*graph.Value { return fedInputs(p.opt.Full.Graph) }

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

// Fill gives a variable new contents on the host; they are copied in when a
// task first needs them.
func (p *Program) Fill(v *graph.Value, data []byte) error {
	return p.rt.Residency.Fill(p.Var(v.Name), data)
}

// CopyIn starts copying everything that a step needs besides its batch to
// where it is used.
func (p *Program) CopyIn(ctx context.Context) error {
	var needs []residency.Need
	seen := map[residency.Need]bool{}
	for _, e := range p.expansions() {
		for _, t := range e.tasks {
			for _, n := range t.needs {
				n.Mode = residency.Read
				if k := n.Tensor.Key(); !seen[n] && (k.Net == "" || p.constant(n.Tensor)) {
					seen[n] = true
					needs = append(needs, n)
				}
			}
		}
	}
	return p.rt.Residency.Prefetch(ctx, needs)
}

// expansions are the kinds of steps that the program has.
func (p *Program) expansions() []*expansion {
	if p.last == nil {
		return []*expansion{p.full}
	}
	return []*expansion{p.full, p.last}
}

func (p *Program) constant(t *residency.Tensor) bool { return slices.Contains(p.constants, t) }

// Output is the tensor of a named output of a step of that many samples, of
// its last microbatch; for fetching what Options.Fetch kept.
func (p *Program) Output(name string, samples int) (*residency.Tensor, error) {
	e, err := p.sized(samples)
	if err != nil {
		return nil, err
	}
	v := p.plan(e.tail).Graph.Find(name)
	if v == nil {
		return nil, fmt.Errorf("%s has no value %q", p.opt.Net, name)
	}
	return p.tensor(v, e.microbatches-1, e.tail)
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
	k := residency.Key{Net: p.opt.Net, Value: v.Name, Microbatch: microbatch}
	perStep := v.Kind == graph.Summed || v.Kind == graph.Computed && v.Node.Phase == graph.Update
	switch {
	case v.Kind == graph.Variable:
		k = residency.Key{Value: v.Name}
	case perStep:
		k.Microbatch = 0
	case tail:
		k.Net += ".tail"
	}
	if t := p.tensors[k]; t != nil {
		return t, nil
	}
	t, err := p.rt.Residency.Declare(k, v.Meta, usageOf(v))
	if err != nil {
		return nil, err
	}
	p.tensors[k] = t
	if v.Kind == graph.Input && v.PerMicrobatch {
		if err := p.rt.Residency.Fill(t, p.opt.Constant(v, microbatch)); err != nil {
			return nil, err
		}
		p.constants = append(p.constants, t)
	}
	return t, nil
}

// usageOf is what a value's memory is counted as.
func usageOf(v *graph.Value) device.Usage {
	switch {
	case v.Kind == graph.Input:
		return device.Input
	case v.Kind == graph.Summed:
		return device.Grad
	case v.Kind == graph.Variable && (v.Role == graph.Parameter || v.Role == graph.Statistic):
		return device.Weight
	case v.Kind == graph.Variable:
		return device.OptState
	case v.Node.Phase == graph.Forward:
		return device.Activation
	case v.Node.Phase == graph.Backward:
		return device.Grad
	}
	return device.Scratch
}

// Schedule is the order in which a full step's microbatches run.
func (p *Program) Schedule() schedule.Schedule { return p.full.schedule }

type viewKey struct {
	of         device.HostBuffer
	microbatch int
	rows       int
}

// view is the rows of one microbatch in a batch's buffer. Buffers come from a
// small ring, so views are made once.
func (p *Program) view(of device.HostBuffer, microbatch, first int, m shape.Meta) *device.HostView {
	k := viewKey{of, microbatch, m.Shape[0]}
	if v := p.views[k]; v != nil {
		return v
	}
	row := m.Bytes() / int64(max(1, m.Shape[0]))
	start := int64(first) * row
	v := device.NewHostView(of, start, m.Bytes())
	p.views[k] = v
	return v
}
