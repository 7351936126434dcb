package eager

import (
	"fmt"
	"sync"

	"github.com/berth-ml/berth/engine/device"
)

// laneSize is the number of calls that can wait in a lane. Further calls block.
const laneSize = 1024

// lane runs the calls of one device in order. Its goroutine ends in close.
type lane struct {
	home
	cache  cache
	report func(error) // tells the diagnostic handler

	mu      sync.Mutex
	work    sync.Cond // something was queued, or the lane is closing
	room    sync.Cond // something was taken
	ring    [laneSize]*work
	queued  uint64 // number of the last call queued
	taken   uint64 // number of the last call taken
	closed  bool
	stopped chan struct{} // closed when the goroutine has ended

	// Only the goroutine uses the fields below.
	stream   device.Stream
	broken   error   // the failure to open a stream; nil if there is one
	inFlight flights // each depends on those before it that can fail by their data
	in, out  []device.Buffer
	after    [1]device.Event // the last use of a launch's scratch
}

// close waits for queued calls and ends the goroutine.
func (l *lane) close() error {
	l.mu.Lock()
	again := l.closed
	l.closed = true
	l.work.Signal()
	l.room.Broadcast()
	l.mu.Unlock()
	<-l.stopped
	if again {
		return fmt.Errorf("%s: %w", l.dev.ID(), ErrClosed)
	}
	if l.broken != nil {
		return l.broken
	}
	return l.stream.Close()
}

// queue gives a call its number and queues it. It waits while the lane is full.
func (l *lane) queue(w *work) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	for !l.closed && l.queued-l.taken == laneSize {
		l.room.Wait()
	}
	if l.closed {
		return ErrClosed
	}
	l.queued++
	w.seq = l.queued
	l.ring[w.seq%laneSize] = w
	l.work.Signal()
	return nil
}

// failed reports and returns the error of a call that failed with err.
func (l *lane) failed(w *work, err error) error {
	err = &Error{Op: w.what, Loc: w.loc, Err: err}
	l.report(err)
	return err
}

// renew replaces a stream that failed. It ignores the error of Close: that is the
// same failure, which the calls have reported.
func (l *lane) renew() {
	_ = l.stream.Close()
	l.stream, l.broken = l.dev.NewStream("eager")
}
