package eager

import (
	"context"
	"errors"

	"github.com/berth-ml/berth/engine/device"
)

// run is the lane's goroutine.
func (l *lane) run() {
	defer close(l.stopped)
	defer l.cache.close()
	for w := l.next(); w != nil; w = l.next() {
		l.perform(w)
		l.cache.sweep()
		if w.entry != nil && w.entry.over { // dropped while the call was queued
			w.entry.release()
		}
	}
}

// next waits for the next call; it is nil once the lane is closed and all calls
// have ended. While none is queued, it retires calls in flight.
func (l *lane) next() *work {
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

// perform runs one call. A launch may join the calls in flight if none of them can
// fail by its data, or if it depends on the last of them, and so on all that can: if
// one fails, the stream rightly skips it. Any other call waits until all calls in
// flight have succeeded or failed.
func (l *lane) perform(w *work) {
	for l.inFlight.count() > 0 && l.inFlight.oldest().event.Done() {
		l.retireOldest()
	}
	if f := &l.inFlight; f.count() > 0 && (w.do != nil || f.unsure > 0 && !w.follows(f.newest())) {
		l.drain()
	}
	err := l.start(w)
	if errors.Is(err, device.ErrOutOfMemory) && l.inFlight.count() > 0 {
		l.drain() // which may give memory back
		err = l.start(w)
	}
	w.unuse()
	if err == nil && w.do == nil {
		l.inFlight.add(w)
	} else {
		l.drain()
		l.retire(w, err)
	}
	for _, t := range w.results {
		t.unuse()
	}
}

// start launches or does a call unless it is blocked. It reports a failure that
// arises here.
func (l *lane) start(w *work) error {
	if err := l.blocked(w); err != nil {
		return err
	}
	var err error
	if w.do != nil {
		err = w.do()
	} else {
		err = l.launch(w)
	}
	if err == nil || errors.Is(err, device.ErrOutOfMemory) && l.inFlight.count() > 0 {
		return err
	}
	return l.failed(w, err)
}

func (l *lane) drain() {
	for l.inFlight.count() > 0 {
		l.retireOldest()
	}
}

// retireOldest waits for the oldest call in flight. If it failed, the others either
// depend on it or were skipped with it, by a failure of the device: they fail with it,
// and the stream is replaced.
func (l *lane) retireOldest() {
	w := l.inFlight.oldest()
	err := w.event.Wait(context.Background())
	if err == nil {
		l.retire(l.inFlight.take(), nil)
		return
	}
	err = l.failed(w, err)
	l.renew()
	for l.inFlight.count() > 0 {
		l.retire(l.inFlight.take(), err)
	}
}

// retire makes a call count as ended, and frees the results of a failed one.
func (l *lane) retire(w *work, err error) {
	w.err = err
	if err != nil {
		for _, t := range w.results {
			t.free()
		}
	}
	w.after, w.do = nil, nil // so that a handle does not keep all its ancestors
	l.progress.end(w.seq)
}
