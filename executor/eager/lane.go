package eager

import (
	"errors"
	"fmt"
	"sync"

	"github.com/berth-ml/berth/engine/device"
	"github.com/berth-ml/berth/residency"
)

// laneSize is the number of calls that can wait in a lane. Further calls block.
const laneSize = 1024

// lane runs the calls of one device in order. While none waits, a short one runs on its
// caller's goroutine: see submit. Its own goroutine ends in close.
type lane struct {
	home
	cache   cache
	report  func(error) // tells the diagnostic handler
	compile compileOptions

	// Guarded by mu.
	work    sync.Cond // something was queued, or the lane is closing
	room    sync.Cond // something was taken, or held is set
	ring    [laneSize]*work
	queued  uint64 // number of the last call queued
	taken   uint64 // number of the last call taken
	long    int    // calls that have not ended and may take long
	held    bool   // the goroutine waits for a call that is not of the lane
	closed  bool
	stopped chan struct{} // closed when the goroutine has ended

	// Only the goroutine uses the fields below; while the lane is idle, whoever has mu.
	stream   device.Stream
	runner   device.Runner // the stream; nil if it is none
	broken   error         // the failure to open a stream; nil if there is one
	canceled bool          // the stream skips what is queued
	inFlight flights       // each depends on those before it that can fail by their data
	lease    residency.Lease
	needs    []residency.Need
	out      []device.Buffer
	scratch  *record // of the launch under way

	copies copies
}

// idle reports whether all calls that were queued have ended. It needs mu.
func (l *lane) idle() bool { return !l.closed && l.progress.done(l.queued) && l.broken == nil }

// close waits for queued calls and ends the goroutine.
func (l *lane) close() error {
	l.mu.Lock()
	l.closed = true
	l.work.Signal()
	l.room.Broadcast()
	l.mu.Unlock()
	<-l.stopped
	err := l.copies.close()
	if l.broken != nil {
		return errors.Join(err, l.broken)
	}
	return errors.Join(err, l.stream.Close())
}

// queue gives a call its number and queues it. It waits while the lane is full; not within a
// function of Call for which the lane may wait. It needs mu.
func (l *lane) queue(w *work) error {
	for !l.closed && l.queued-l.taken == laneSize {
		if l.held && withinCall() {
			return fmt.Errorf("%w: %d calls wait for %s, which may wait for the function of Call that makes this one: wait for some before", ErrBusy, laneSize, l.dev.ID())
		}
		l.room.Wait()
	}
	if l.closed {
		return ErrClosed
	}
	l.queued++
	w.seq = l.queued
	if w.long = !w.entry.short || w.waits(); w.long {
		l.long++
	}
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

// renew replaces a stream that failed or was canceled. It ignores the error of Close: that is the
// same failure, which the calls have reported.
func (l *lane) renew() {
	_ = l.stream.Close()
	l.open()
}

// open opens the stream.
func (l *lane) open() {
	l.stream, l.broken = l.dev.NewStream(l.memory.tenant.StreamName("eager"))
	l.runner, _ = l.stream.(device.Runner)
	l.canceled = false
}
