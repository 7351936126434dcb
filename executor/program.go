package executor

import (
	"fmt"

	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/executor/schedule"
	"github.com/berth-ml/berth/internal/stop"
	"github.com/berth-ml/berth/partition"
	"github.com/berth-ml/berth/residency"
)

// LoadOptions is the plan of a program and how its steps are made.
type LoadOptions struct {
	// Net prefixes the names of tensors that belong to this program alone. It
	// is unique among the programs of a runtime.
	Net string
	// Full is the plan of a microbatch of full size; its Update phase is for a
	// full batch.
	Full *partition.Plan
	// Tail is the same cut for an epoch's last batch: its Forward and Backward
	// are for that batch's last, smaller microbatch. Nil if every batch is full.
	Tail *partition.Plan
	// LastMicrobatches is the number of microbatches in an epoch's last batch,
	// with the one of the tail's size. It is unused without a Tail.
	LastMicrobatches int
	// Constant gives the bytes of a per-microbatch constant.
	Constant func(v *graph.Value, microbatch int) []byte
	// Fetch keeps the graph's outputs after a step, for the caller to pull back.
	Fetch bool
	// CheckFinite fails at the first node whose output is not finite, to find
	// where training went wrong. Use it with a plan of Forward alone, so that
	// nothing is updated.
	CheckFinite bool
	// OpByOp runs each op by itself: it is compiled, leased and launched alone, and
	// the values between ops are tensors of residency's. The bits are the same.
	OpByOp bool
	// Stop is called now and then while the program is loaded. Its error ends
	// loading. Nil means never.
	Stop func() error
}

// Program is a plan compiled for a runtime.
type Program struct {
	rt  *Runtime
	opt LoadOptions
	loaded
	tensors map[residency.Key]*residency.Tensor
	vars    map[string]*residency.Tensor // by the name of the variable
	lasting map[*residency.Tensor]bool   // variables and constants: they outlive a step
	inputs  []*graph.Value

	schedule schedule.Schedule
	sizes    []*expansion // the two sizes of a step: a full batch, and an epoch's last

	stop   *stop.Check // of Load
	steps  uint64
	half   bool // a step was aborted of which a part of the update had ended
	closed bool
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

// Graph is the graph of a full microbatch.
func (p *Program) Graph() *graph.Graph { return p.opt.Full.Graph }

// Var is the tensor of a variable, nil if the graph has none of that name.
func (p *Program) Var(name string) *residency.Tensor {
	return p.vars[name]
}

func (p *Program) plan(tail bool) *partition.Plan {
	if tail {
		return p.opt.Tail
	}
	return p.opt.Full
}

// Schedule is the order in which a full step's microbatches run.
func (p *Program) Schedule() schedule.Schedule { return p.schedule }

// sized finds the step for that many samples.
func (p *Program) sized(samples int) (*expansion, error) {
	for _, e := range p.sizes {
		if e.samples == samples {
			return e, nil
		}
	}
	text := fmt.Sprint(p.sizes[0].samples)
	if len(p.sizes) > 1 {
		text += fmt.Sprintf(", or %d in an epoch's last batch", p.sizes[1].samples)
	}
	return nil, fmt.Errorf("%w: it has %d samples; give %s", ErrBatch, samples, text)
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
