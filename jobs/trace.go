package jobs

import (
	"context"
	"errors"
	"fmt"

	"github.com/berth-ml/berth"
)

// TraceStep asks the training of a job for the trace of its next step, and waits for that: see [berth.Run.TraceStep]. It
// fails with berth.ErrNoStep where the job does not train now, and with berth.ErrInUse while a step of any job is traced.
func (d *Daemon) TraceStep(ctx context.Context, id int) (*berth.StepTrace, error) {
	if !d.tracing.TryLock() {
		return nil, fmt.Errorf("%w: a step of a job is being traced: ask again once that has ended", berth.ErrInUse)
	}
	defer d.tracing.Unlock()
	run, err := d.trains(id)
	if err != nil {
		return nil, err
	}
	t, err := run.TraceStep(ctx)
	if errors.Is(err, berth.ErrClosed) {
		return nil, fmt.Errorf("%w: job %d has ended or stands aside", berth.ErrNoStep, id)
	}
	return t, err
}

// trains is the run of a job that trains now.
func (d *Daemon) trains(id int) (*berth.Run, error) {
	v, err := d.View(id)
	if err != nil {
		return nil, err
	}
	why := ""
	if v.Where != "" {
		why = ": " + v.Where
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	switch t := d.open[id]; {
	case v.Leads():
		return nil, fmt.Errorf("%w: job %d trains nothing itself%s: ask for one of its own", berth.ErrNoStep, id, why)
	case t == nil:
		return nil, fmt.Errorf("%w: job %d is %s%s", berth.ErrNoStep, id, v.State, why)
	case !t.runs():
		return nil, fmt.Errorf("%w: job %d stands still while others have its devices: ask again once it goes on", berth.ErrNoStep, id)
	case t.opened == nil:
		return nil, fmt.Errorf("%w: job %d has no training open: it is about to begin, or saves", berth.ErrNoStep, id)
	default:
		return t.opened, nil
	}
}
