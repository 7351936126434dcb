package eager

import (
	"context"
	"errors"
)

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

// told is the *Error of a call that did not start. It reports a failure that arose here.
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
