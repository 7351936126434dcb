package eager

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/berth-ml/berth/engine/device"
	"github.com/berth-ml/berth/residency"
)

// laneSize is the number of calls that can wait in a lane. Further calls block.
const laneSize = 1024

// lane runs the calls of one device in order, and has the tensors there. While no call waits, a
// short one runs on its caller's goroutine: see submit. Its own goroutine ends in close. The
// context owns it; tensors know it.
type lane struct {
	context  *Context
	dev      device.Device
	compile  compileOptions
	progress progress

	mu sync.Mutex // guards all tensors of the lane, and the fields up to those of the goroutine

	memory  memory // the tensors
	cache   cache
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
			return fmt.Errorf("%w: %d calls wait for %s, the most at a time, and a call from within a function of Call cannot wait for room, since the device may wait for that function: make fewer calls at a time", ErrBusy, laneSize, l.dev.ID())
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
	return l.context.failed(w.what, w.loc, err)
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

// loop is the lane's goroutine.
func (l *lane) loop() {
	defer close(l.stopped)
	defer l.releaseAll()
	for w := l.take(); w != nil; w = l.take() {
		l.perform(w)
		l.done(w.entry)
	}
}

// releaseAll releases all executables.
func (l *lane) releaseAll() {
	l.mu.Lock()
	unused := l.cache.drop()
	l.mu.Unlock()
	for _, e := range unused {
		e.release()
	}
}

// take waits for the next call; it is nil once the lane is closed and all calls
// have ended. While none is queued, it retires calls in flight.
func (l *lane) take() *work {
	l.mu.Lock()
	defer l.mu.Unlock()
	for l.taken == l.queued {
		switch {
		case l.inFlight.count() > 0:
			l.mu.Unlock()
			l.retireOldest()
			l.mu.Lock()
		case l.closed:
			return nil
		default:
			l.work.Wait()
		}
	}
	l.taken++
	at := &l.ring[l.taken%laneSize]
	w := *at
	*at = nil
	l.room.Signal()
	return w
}

// mostInFlight is the most calls of a lane that were launched and have not ended: enough
// to keep a device busy.
const mostInFlight = 256

// perform runs one call. A launch may join the calls in flight if none of them can
// fail by its data, or if it depends on the last of them, and so on all that can: if
// one fails, the stream rightly skips it. Any other call waits until all calls in
// flight have succeeded or failed; so does one behind calls that were canceled.
func (l *lane) perform(w *work) {
	f := &l.inFlight
	for f.count() > 0 && (f.oldest().event.Done() || f.count() == mostInFlight) {
		l.retireOldest()
	}
	if f.count() > 0 && (f.oldest().era.over.Load() || f.unsure > 0 && !w.follows(f.newest())) {
		l.drain()
	}
	err := l.start(w)
	if err != nil && f.count() > 0 { // a call that it depends on may have failed
		l.drain()
		err = l.start(w)
	}
	if err != nil {
		err = l.told(w, err)
	}
	w.unuse()
	if err == nil {
		f.add(w)
	} else {
		l.drain()
		l.retire(w, err)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, x := range w.results {
		x.rec.unuseLocked()
	}
}

// start launches a call unless it is blocked.
func (l *lane) start(w *work) error {
	if err := l.blocked(w); err != nil {
		return err
	}
	return l.launch(w)
}

// told makes the *Error of a call that did not start. It reports the call's own failure, but
// neither one of a call that it depends on nor the end of its era.
func (l *lane) told(w *work, err error) error {
	var known *Error
	switch {
	case errors.As(err, &known): // of a call that it depends on
		return err
	case w.era.over.Load():
		return &Error{Op: w.what, Loc: w.loc, Err: w.era.cause(err)}
	}
	return l.failed(w, err)
}

func (l *lane) drain() {
	for l.inFlight.count() > 0 {
		l.retireOldest()
	}
}

// retireOldest waits for the oldest call in flight. If it failed, the others either
// depend on it or were skipped with it, by a failure of the device or by Cancel: they fail
// with it, and the stream is replaced.
func (l *lane) retireOldest() {
	w := l.inFlight.oldest()
	err := l.awaitEnd(w)
	if err == nil {
		l.inFlight.take()
		if l.canceled && l.inFlight.count() == 0 { // nothing is left to fail
			l.renew()
		}
		l.retire(w, nil)
		return
	}
	canceled := errors.Is(err, ErrCanceled)
	err = l.failed(w, err)
	l.renew()
	for l.inFlight.count() > 0 {
		if w = l.inFlight.take(); canceled {
			err = l.failed(w, w.era.cause(nil))
		}
		l.retire(w, err)
	}
}

// awaitEnd waits for the end of a call in flight. Once its era is over, calls in flight that
// have not begun are skipped.
func (l *lane) awaitEnd(w *work) error {
	err := w.event.Wait(w.era)
	if w.event.Done() {
		return w.event.Err()
	}
	l.canceled = true
	l.stream.Cancel(w.era.cause(err))
	return w.event.Wait(context.Background())
}

// retire makes a call count as ended.
func (l *lane) retire(w *work, err error) {
	w.err = err
	w.after = nil // so that a handle does not keep all its ancestors
	l.mu.Lock()
	for _, x := range w.results {
		x.rec.endLocked(x.gen, err)
	}
	if w.long {
		l.long--
	}
	l.mu.Unlock()
	l.progress.end(w.seq)
}

// flights are the calls of a lane that were launched and have not ended, in order.
type flights struct {
	list   []*work
	first  int // index of the oldest in list; nil before it
	unsure int // those that can fail by their data
}

func (f *flights) count() int    { return len(f.list) - f.first }
func (f *flights) oldest() *work { return f.list[f.first] }
func (f *flights) newest() *work { return f.list[len(f.list)-1] }

// add adds the newest.
func (f *flights) add(w *work) {
	if f.first > len(f.list)/2 { // each call is moved about once
		n := copy(f.list, f.list[f.first:])
		clear(f.list[n:])
		f.list, f.first = f.list[:n], 0
	}
	f.list = append(f.list, w)
	if !w.entry.sure {
		f.unsure++
	}
}

// take removes the oldest and returns it.
func (f *flights) take() *work {
	w := f.list[f.first]
	f.list[f.first] = nil
	if f.first++; f.first == len(f.list) {
		f.list, f.first = f.list[:0], 0
	}
	if !w.entry.sure {
		f.unsure--
	}
	return w
}

// progress counts the calls of a lane that have ended. They end in order.
type progress struct {
	ended atomic.Uint64 // number of the last call that has ended; written under mu

	mu      sync.Mutex
	waiters []waiter
}

// waiter is a goroutine in await.
type waiter struct {
	seq  uint64
	wake chan struct{}
}

// done reports whether call seq has ended.
func (p *progress) done(seq uint64) bool { return p.ended.Load() >= seq }

// await blocks until call seq has ended, or returns ctx's error.
func (p *progress) await(ctx context.Context, seq uint64) error {
	p.mu.Lock()
	if p.done(seq) {
		p.mu.Unlock()
		return nil
	}
	w := waiter{seq, make(chan struct{})}
	p.waiters = append(p.waiters, w)
	p.mu.Unlock()
	select {
	case <-w.wake:
		return nil
	case <-ctx.Done():
		p.withdraw(w)
		return ctx.Err()
	}
}

// withdraw takes a waiter off the list, if its call has not ended.
func (p *progress) withdraw(w waiter) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.waiters = slices.DeleteFunc(p.waiters, func(o waiter) bool { return o == w })
}

// end makes call seq count as ended.
func (p *progress) end(seq uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.ended.Store(seq)
	kept := p.waiters[:0]
	for _, w := range p.waiters {
		if w.seq > seq {
			kept = append(kept, w)
		} else {
			close(w.wake)
		}
	}
	clear(p.waiters[len(kept):])
	p.waiters = kept
}
