package executor

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/berth-ml/berth/engine/device"
	"github.com/berth-ml/berth/residency"
)

// Whole is the last step at whose end every variable is: its update has ended, and
// nothing of a later one has begun. It is for saving the variables after a failure,
// and waits for everything that is queued. It fails where the variables are not all
// at the end of one step, or where a copy of one has failed.
func (p *Program) Whole() (Ticket, error) {
	p.rt.settle()
	last, err := p.updated()
	if err != nil {
		return 0, err
	}
	for _, v := range p.Graph().Vars {
		if err := p.rt.Residency.Intact(context.Background(), p.Var(v.Name)); err != nil {
			return 0, err
		}
	}
	return last, nil
}

// updated is the last step whose update has ended. Everything queued has.
func (p *Program) updated() (Ticket, error) {
	if p.half {
		return 0, ErrHalf
	}
	last := Ticket(p.steps)
	for t := max(last, ahead) - ahead + 1; t <= Ticket(p.steps); t++ {
		f := p.inflight.of(t)
		if f.e == nil || f.ticket != t { // it ended well
			continue
		}
		wrote, failed := f.updates()
		switch {
		case wrote > 0 && failed > 0, wrote > 0 && last < t:
			return 0, fmt.Errorf("step %d: %w", t, ErrHalf)
		case failed > 0:
			last = min(last, t-1)
		}
	}
	return last, nil
}

// Borrow notes where the program's variables are. giveBack frees the copies that were made
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
			if at := p.rt.on[d].index; !p.rt.Residency.Has(at, t) {
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

// updates counts the tasks of a step that write variables, as far as they were queued:
// those that wrote, and those that failed or were skipped. An op whose results are not
// finite has written them, and failed.
func (f *flight) updates() (wrote, failed int) {
	for _, t := range f.e.tasks {
		e := t.events[f.slot()]
		if !t.updates || e == (device.Event{}) {
			continue
		}
		err := e.Err()
		if err == nil || t.wrote(err) {
			wrote++
		}
		if err != nil {
			failed++
		}
	}
	return wrote, failed
}

// wrote reports whether a failure is about the results of the task's own op.
func (t *task) wrote(err error) bool {
	nf, ok := errors.AsType[*device.NonFiniteError](err)
	return ok && t.call != nil && nf.Node != nil && slices.Contains(t.exe.Graph().Nodes, nf.Node)
}
