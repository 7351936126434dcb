package executor

import (
	"fmt"

	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/executor/schedule"
	"github.com/berth-ml/berth/internal/stop"
	"github.com/berth-ml/berth/residency"
)

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
	sizes    []*expansion // of a step: a full batch, and an epoch's last; or by bucket

	stop     *stop.Check // of Load
	steps    uint64
	switched Ticket // the first step after the newest change from op by op to compiled; 0: there was none
	half     bool   // a step was aborted of which a part of the update had ended
	closed   bool
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
		return nil, fmt.Errorf("%w: it has %d samples of bucket %d; give %s of a bucket from 0 to %d", ErrBatch, samples, bucket, text, n-1)
	}
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
