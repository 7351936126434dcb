package train

import (
	"context"
	"errors"
	"fmt"

	"github.com/berth-ml/berth/engine/device"
	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/executor"
	"github.com/berth-ml/berth/executor/boundary"
	"github.com/berth-ml/berth/partition"
)

// failure is a step that failed.
type failure struct {
	step  int // of the run, from 1
	batch executor.Batch
	known bool // batch is there
	hint  string
	err   error
	again func() (*executor.Runtime, error) // makes a runtime once the failed one is closed
}

// explain adds to a failure what a user needs to act on it. For a loss that is
// not finite that is the step, the layer where numbers first stopped being
// finite, and the last good checkpoint.
func explain(f failure, rt *executor.Runtime, p *executor.Program, o executor.LoadOptions) error {
	if !errors.Is(f.err, device.ErrNonFinite) {
		return fmt.Errorf("step %d: %w", f.step, f.err)
	}
	if !f.known {
		return fmt.Errorf("BUG: step %d is not under way: %w", f.step, f.err)
	}
	var where string
	var nf *device.NonFiniteError
	if o.OpByOp && errors.As(f.err, &nf) {
		return fmt.Errorf("step %d: %w; %s", f.step, f.err, f.hint)
	}
	if cause := diagnose(rt, p, o, f); errors.As(cause, &nf) && nf.Node != nil {
		where = "first in " + nf.Error()
	} else {
		where = fmt.Sprintf("in the loss (where it began could not be found: %v)", cause)
	}
	return fmt.Errorf("step %d: the loss is %w: %s; %s", f.step, device.ErrNonFinite, where, f.hint)
}

// diagnose runs the forward pass of a failed step again and checks every value; its error names
// the first node whose result is not finite. The weights are still those from before the step,
// since no update runs after a failure. The failed runtime's streams accept no more
// work, so diagnose copies the weights out, closes that runtime and makes a new one.
func diagnose(failed *executor.Runtime, p *executor.Program, o executor.LoadOptions, f failure) (err error) {
	ctx := context.Background()
	weights, err := boundary.Salvage(ctx, failed, p)
	if err != nil {
		return err
	}
	if err := failed.Close(); err != nil && !errors.Is(err, device.ErrNonFinite) {
		return err
	}
	rt, err := f.again()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, rt.Close()) }()
	if o, err = checked(o); err != nil {
		return err
	}
	if p, err = rt.Load(o); err != nil {
		return err
	}
	err = p.Init(ctx, func(v *graph.Value, dst []byte) error {
		clear(dst[copy(dst, weights[v.Name]):])
		delete(weights, v.Name)
		return nil
	})
	if err != nil {
		return err
	}
	ticket, err := p.Step(ctx, f.batch)
	if err != nil {
		return err
	}
	return p.Wait(ctx, ticket)
}

// checked turns the options of a training program into those of its forward pass, which checks
// every value: the plan of a full step, those of its buckets, and that of its tail.
func checked(o executor.LoadOptions) (executor.LoadOptions, error) {
	o.Net, o.CheckFinite, o.Stop = "diagnosis", true, nil
	var err error
	buckets := o.Buckets
	if o.Full, err = partition.Derive(o.Full, o.Full.Graph, partition.DeriveOptions{For: partition.Checked}); err == nil && len(buckets) > 0 {
		o.Buckets = nil
		for _, p := range buckets[:len(buckets)-1] {
			if p, err = partition.Derive(p, p.Graph, partition.DeriveOptions{For: partition.Checked}); err != nil {
				return o, err
			}
			o.Buckets = append(o.Buckets, p)
		}
		o.Buckets = append(o.Buckets, o.Full)
	}
	if err != nil || o.Tail == nil {
		return o, err
	}
	o.Tail, err = partition.Derive(o.Tail, o.Tail.Graph, partition.DeriveOptions{For: partition.Checked})
	return o, err
}

// another makes a runtime after one that failed and is closed, to find the cause.
func (a *attempt) another() (*executor.Runtime, error) {
	rt, err := a.session.Another(a.devices, a.opt.Dir)
	if err == nil {
		a.session.Watch(rt, a.ending, a.patience)
	}
	return rt, err
}
