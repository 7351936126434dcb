package streams

import (
	"fmt"
	"slices"
	"time"

	"github.com/berth-ml/berth/engine/device"
	"github.com/berth-ml/berth/engine/device/planner"
	"github.com/berth-ml/berth/internal/panics"
)

// run runs the program. It needs the device's turn.
func (l *Launch) run() error {
	defer l.turn.launches.Add(1)
	defer l.awaitDelays()
	if l.program == nil {
		return nil
	}
	defer l.wrote()
	err := l.compute()
	switch {
	case err == nil:
		return l.arrived(nil)
	case l.late != nil:
		return l.late
	}
	return fmt.Errorf("%s: %w", l.heap.id, err)
}

// compute runs the program. A panic of a kernel is an error, since it may be that of an op
// which the user's program brings.
func (l *Launch) compute() (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("%s panicked: %s", l.graph.Name, panics.Text(r))
		}
	}()
	return l.program.Run(l)
}

// Completed tells that the outputs are ready that a step completes. Steps are told of in
// the order of the plan.
func (l *Launch) Completed(st *planner.Step) {
	if len(st.Completes) == 0 {
		return
	}
	for _, k := range st.Completes {
		l.out[k].wrote()
	}
	mark := l.mark[st.Completes[0]]
	l.marked = mark + 1
	if q, ok := l.event.Queue.(worker); ok {
		q.reach(l.event.Seq - uint64(l.marks-mark))
	}
}

// wrote gives the contents of the outputs that did not count as complete before new
// numbers.
func (l *Launch) wrote() {
	for k, b := range l.out {
		if l.mark[k] < l.marked {
			continue
		}
		if b == nil {
			b = l.in[l.alias[k]]
		}
		b.wrote()
	}
}

// Late reports whether Await would wait for an input that a step reads.
func (l *Launch) Late(st *planner.Step) bool {
	return slices.ContainsFunc(l.reads, func(a arrival) bool {
		return !a.event.Done() && slices.ContainsFunc(st.Reads, func(j int) bool { return l.in[j] == a.buffer })
	})
}

// Await waits until the program may run a step of its plan: until the inputs that it
// is the first to read are there. Before it overwrites an input in place, all inputs
// must be there, so that a launch that fails for want of one leaves them as they were,
// and the other users of the buffer must have ended, well or not. It fails if contents
// did not arrive; then Run ends with that error.
func (l *Launch) Await(st *planner.Step) error {
	if len(l.reads) > 0 {
		for _, j := range st.Reads {
			if err := l.arrived(l.in[j]); err != nil {
				return err
			}
		}
		if len(st.Overwrites) > 0 {
			if err := l.arrived(nil); err != nil {
				return err
			}
		}
	}
	if l.delayed {
		for _, j := range st.Overwrites {
			l.awaitEnd(l.writes[j])
		}
	}
	return nil
}

// arrived waits until the contents of a buffer are there, or of all inputs if it is
// nil. Of the events of a buffer, the last one ends last, and the first one that
// failed is the cause of the others' failures.
func (l *Launch) arrived(b *buffer) error {
	for i := len(l.reads) - 1; i >= 0; i-- {
		if a := &l.reads[i]; b == nil || a.buffer == b {
			l.awaitEnd(a.event)
		}
	}
	for i := range l.reads {
		if a := &l.reads[i]; b == nil || a.buffer == b {
			if err := a.event.Wait(l.heap.ctx); err != nil {
				l.late = err
				return err
			}
		}
	}
	return nil
}

// awaitDelays waits for all events that are left: of inputs that no instruction
// uses, or that a failed launch did not come to. Who waits for the launch need not
// wait for them.
func (l *Launch) awaitDelays() {
	for i := range l.reads {
		l.awaitEnd(l.reads[i].event)
	}
	if l.delayed {
		for _, e := range l.writes {
			l.awaitEnd(e)
		}
	}
}

// worker notes the command that runs. Queues of this package are workers.
type worker interface {
	begin(what string, now time.Time) (before string)
	// reach makes everything up to a number count as ended.
	reach(seq uint64)
}

// awaitEnd waits for an event, and counts the time.
func (l *Launch) awaitEnd(e device.Event) {
	if e.Done() {
		return
	}
	start := time.Now()
	q, _ := l.event.Queue.(worker)
	what := q.begin("", start)
	awaitEnd(l.heap.ctx, e)
	end := time.Now()
	q.begin(what, end)
	l.waited += end.Sub(start)
}
