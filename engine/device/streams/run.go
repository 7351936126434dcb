package streams

import (
	"fmt"
	"time"

	"github.com/berth-ml/berth/engine/device"
)

// run runs the program. It needs the device's turn.
func (l *Launch) run() error {
	defer l.turn.launches.Add(1)
	defer l.awaitDelays()
	if l.program == nil {
		return nil
	}
	defer l.wrote()
	if err := l.program.Run(l); err != nil {
		return fmt.Errorf("%s: %w", l.heap.id, err)
	}
	return nil
}

// wrote gives the contents of the outputs new numbers.
func (l *Launch) wrote() {
	for k, b := range l.out {
		if b == nil {
			b = l.in[l.alias[k]]
		}
		b.wrote()
	}
}

// AwaitWrite waits until a program may overwrite donated input j for the first
// time. A failure of the event does not matter here: the readers of the buffer
// learn of it.
func (l *Launch) AwaitWrite(j int) {
	if l.delayed {
		l.awaitDelay(l.delays[j])
	}
}

// awaitDelays waits for all delays that are left: of inputs that no instruction
// overwrites, or that a failed launch did not come to. Who waits for the launch
// need not wait for them.
func (l *Launch) awaitDelays() {
	if l.delayed {
		for _, e := range l.delays {
			l.awaitDelay(e)
		}
	}
}

// worker notes the command that runs. Queues of this package are workers.
type worker interface {
	begin(what string, now time.Time) (before string)
}

func (l *Launch) awaitDelay(e device.Event) {
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
