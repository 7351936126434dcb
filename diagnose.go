package berth

import (
	"context"
	"errors"
	"fmt"

	"github.com/berth-ml/berth/engine/device"
	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/executor"
	"github.com/berth-ml/berth/residency"
)

// explain adds to a failure what a user needs to act on it. For a loss that is
// not finite that is the step, the layer where numbers first stopped being
// finite, and the last good checkpoint.
func (t *trainer) explain(err error) error {
	var task *executor.TaskError
	if !errors.As(err, &task) {
		return err
	}
	step := t.first + int(task.Step)
	if !errors.Is(err, device.ErrNonFinite) {
		return fmt.Errorf("step %d: %w", step, err)
	}
	var where string
	var nf *device.NonFiniteError
	if cause := t.diagnose(task.Step); errors.As(cause, &nf) {
		where = "first in " + nf.Error()
	} else {
		where = fmt.Sprintf("in the loss (where it began could not be found: %v)", cause)
	}
	return fmt.Errorf("step %d: the loss is %w: %s; %s", step, ErrNonFinite, where, t.lastGood())
}

// lastGood says where to go on from.
func (t *trainer) lastGood() string {
	list, _, err := t.dir.DB.List()
	if err != nil || len(list) == 0 {
		return "there is no checkpoint yet: lower the learning rate or set optimizer.clip_norm"
	}
	m := list[len(list)-1]
	return fmt.Sprintf("the last good checkpoint is of step %d in %s: export it, and begin a run from it (--init) with a lower learning rate or with optimizer.clip_norm",
		m.Step, t.dir.DB.Path())
}

// diagnose runs the failed step's forward pass again, checking every value.
// The failure poisoned the streams, so it uses new ones; the weights are still
// those of the step's beginning, since no update ran after the failure.
func (t *trainer) diagnose(failed executor.Ticket) error {
	ctx := context.Background()
	batch, ok := t.feed.Failed(failed)
	if !ok {
		return fmt.Errorf("BUG: step %d is not under way", failed)
	}
	weights, err := t.pullVars(ctx)
	if err != nil {
		return err
	}
	if err := t.rt.Close(); err != nil && !errors.Is(err, device.ErrNonFinite) {
		return err
	}
	if t.rt, err = executor.NewRuntime(t.devs, residency.ManagerOptions{}); err != nil {
		return err
	}
	o, err := t.forward(ctx)
	if err != nil {
		return err
	}
	p, err := t.rt.Load(o)
	if err != nil {
		return err
	}
	err = p.Init(ctx, func(v *graph.Value, dst []byte) error {
		copy(dst, weights[v.Name])
		delete(weights, v.Name)
		return nil
	})
	if err != nil {
		return err
	}
	ticket, err := p.Step(ctx, batch)
	if err != nil {
		return err
	}
	return p.Wait(ctx, ticket)
}

// forward is what the executor needs to run the forward pass and check it.
func (t *trainer) forward(ctx context.Context) (o executor.LoadOptions, err error) {
	o = t.program(ctx)
	o.Net, o.CheckFinite, o.Schedule = "diagnosis", true, ""
	if o.Full, err = o.Full.Forward(); err != nil || o.Tail == nil {
		return o, err
	}
	o.Tail, err = o.Tail.Forward()
	return o, err
}

// pullVars copies every variable to the host as it was before the failed step:
// its update was skipped.
func (t *trainer) pullVars(ctx context.Context) (map[string][]byte, error) {
	t.rt.Residency.Unseal()
	out := map[string][]byte{}
	for _, v := range t.Plan.Graph.Vars {
		err := t.rt.Residency.Salvage(ctx, t.prog.Var(v.Name), func(b []byte) error {
			out[v.Name] = append([]byte(nil), b...)
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	return out, nil
}
