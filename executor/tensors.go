package executor

import (
	"fmt"

	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/partition"
	"github.com/berth-ml/berth/residency"
)

// Output is the tensor of a graph's output for the last microbatch of a step of
// that many samples of a bucket (see [Batch]). LoadOptions.Fetch must be set. The next
// step overwrites it.
func (p *Program) Output(name string, samples, bucket int) (*residency.Tensor, error) {
	e, err := p.sized(samples, bucket)
	if err != nil {
		return nil, err
	}
	for _, v := range e.last().Graph.Outputs {
		if v.Name == name && p.opt.Fetch {
			return p.tensor(e.last().Instance(v, e.microbatches-1, e.tail != nil))
		}
	}
	return nil, fmt.Errorf("%s keeps no output %q: load it with LoadOptions.Fetch, and name an output of its graph", p.Graph().Name, name)
}

// tensor is the record of a value's instance. Variables are shared by all
// programs, but caches by those of LoadOptions.Caches. Values of a microbatch have records
// of their own for each of the two sizes of microbatch, and other values for each bucket,
// except for constants that do not depend on the size.
func (p *Program) tensor(i partition.Instance) (*residency.Tensor, error) {
	v := i.Value
	whole := v.Whole().Name
	k := residency.Key{Net: p.opt.Net, Value: whole, Range: v.Name[len(whole):], Microbatch: i.Microbatch}
	full := p.tensors[k]
	switch {
	case v.Role == graph.Cache:
		k.Net = p.opt.Caches
	case v.Kind == graph.Variable:
		k.Net = ""
	case (i.Tail || i.Bucket > 0) && v.PerMicrobatch && full != nil && full.Meta().Equal(v.Meta):
		return full, nil // the peak of the full step's plan has counted it
	case i.Tail:
		k.Net += ".tail"
	case i.Bucket > 0:
		k.Net += fmt.Sprint(".bucket", i.Bucket)
	}
	if t := p.tensors[k]; t != nil {
		return t, nil
	}
	t, err := p.rt.Residency.Declare(k, v.Meta, i.Usage)
	if err != nil {
		return nil, err
	}
	p.tensors[k] = t
	if v.Kind == graph.Variable {
		p.vars[v.Name] = t
		p.rt.users[t]++
	}
	p.lasting[t] = v.Kind == graph.Variable || v.PerMicrobatch
	if v.PerMicrobatch {
		return t, p.fillConstant(t, v, i.Microbatch)
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
