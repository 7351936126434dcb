package eager

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/berth-ml/berth/engine/device"
)

// laneSize is how many calls may wait in a lane before a call waits for room.
const laneSize = 1024

// lane runs the calls of one device in order. Its goroutine ends in close.
type lane struct {
	context *Context
	dev     device.Device

	entriesMu sync.RWMutex
	entries   map[string]*entry

	retired atomic.Uint64 // the last call that has ended; written under mu

	mu      sync.Mutex
	work    sync.Cond // something was queued, or the lane is closing
	room    sync.Cond // something was taken
	ring    [laneSize]*work
	queued  uint64 // number of the last call queued
	taken   uint64 // number of the last call taken
	closed  bool
	waiters []waiter
	stopped chan struct{} // closed when the goroutine has ended

	// The goroutine's own.
	stream   device.Stream
	broken   error   // why there is no stream
	inFlight []*work // launched, not retired; each depends on the one before
	in, out  []device.Buffer
}

// waiter is a goroutine in await.
type waiter struct {
	seq  uint64
	wake chan struct{}
}

func newLane(c *Context, dev device.Device) (*lane, error) {
	l := &lane{context: c, dev: dev, entries: map[string]*entry{}, stopped: make(chan struct{})}
	l.work.L, l.room.L = &l.mu, &l.mu
	if l.stream, l.broken = dev.NewStream("eager"); l.broken != nil {
		return nil, l.broken
	}
	go l.run()
	return l, nil
}

// close waits for what was queued and ends the goroutine.
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

// queue gives a call its place. It waits while the lane is full.
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

// await blocks until call seq has ended, or returns ctx's error.
func (l *lane) await(ctx context.Context, seq uint64) error {
	l.mu.Lock()
	if l.retired.Load() >= seq {
		l.mu.Unlock()
		return nil
	}
	w := waiter{seq, make(chan struct{})}
	l.waiters = append(l.waiters, w)
	l.mu.Unlock()
	select {
	case <-w.wake:
		return nil
	case <-ctx.Done():
		return ctx.Err() // the entry leaves the list when its call ends
	}
}

// run is the lane's goroutine.
func (l *lane) run() {
	defer close(l.stopped)
	for w := l.next(); w != nil; w = l.next() {
		l.perform(w)
	}
}

// next is the next call; nil when the lane is closed and everything has
// ended. While none is queued it retires what is in flight.
func (l *lane) next() *work {
	l.mu.Lock()
	defer l.mu.Unlock()
	for l.taken == l.queued {
		switch {
		case len(l.inFlight) > 0:
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

// perform runs one call. A launch may join what is in flight if it depends on
// the last of it, and so on all of it: then the stream's rule, that what is
// behind a failure is skipped, is what is wanted. Everything else waits for
// what is in flight to end, well or not.
func (l *lane) perform(w *work) {
	for len(l.inFlight) > 0 && l.inFlight[0].event.Done() {
		l.retireOldest()
	}
	if n := len(l.inFlight); n > 0 && (w.do != nil || !w.follows(l.inFlight[n-1])) {
		l.drain()
	}
	err := l.start(w)
	if errors.Is(err, device.ErrOutOfMemory) && len(l.inFlight) > 0 {
		l.drain() // which may give memory back
		err = l.start(w)
	}
	w.unuse()
	if err == nil && w.do == nil {
		l.inFlight = append(l.inFlight, w)
	} else {
		l.drain()
		l.retire(w, err)
	}
	for _, t := range w.results {
		t.unuse()
	}
}

// start launches or does a call unless something is against it. A failure
// that arises here is reported.
func (l *lane) start(w *work) error {
	if err := w.blocked(); err != nil {
		return err
	}
	run := w.do
	if run == nil {
		run = w.launch
	}
	err := run()
	if err == nil || errors.Is(err, device.ErrOutOfMemory) && len(l.inFlight) > 0 {
		return err
	}
	return l.failed(w, err)
}

// failed is the error of a call that met err, reported.
func (l *lane) failed(w *work, err error) error {
	err = &Error{Op: w.what, Loc: w.loc, Err: err}
	l.context.report(err)
	return err
}

func (l *lane) drain() {
	for len(l.inFlight) > 0 {
		l.retireOldest()
	}
}

// retireOldest waits for the oldest call in flight. If it failed, the others
// depend on it: they fail with it, and the stream is replaced.
func (l *lane) retireOldest() {
	w := l.inFlight[0]
	err := w.event.Wait(context.Background())
	if err == nil {
		n := copy(l.inFlight, l.inFlight[1:])
		l.inFlight[n] = nil
		l.inFlight = l.inFlight[:n]
		l.retire(w, nil)
		return
	}
	err = l.failed(w, err)
	l.renew()
	for i, w := range l.inFlight {
		l.inFlight[i] = nil
		l.retire(w, err)
	}
	l.inFlight = l.inFlight[:0]
}

// renew replaces a stream that failed. The failure has been handed on, so
// that of Close is the same one.
func (l *lane) renew() {
	_ = l.stream.Close()
	l.stream, l.broken = l.dev.NewStream("eager")
}

// retire makes a call count as ended. Results of a failed one need no memory.
func (l *lane) retire(w *work, err error) {
	w.err = err
	if err != nil {
		for _, t := range w.results {
			t.free()
		}
	}
	w.after, w.do = nil, nil // so that a handle does not keep all its ancestors
	l.mu.Lock()
	defer l.mu.Unlock()
	l.retired.Store(w.seq)
	kept := l.waiters[:0]
	for _, s := range l.waiters {
		if s.seq > w.seq {
			kept = append(kept, s)
		} else {
			close(s.wake)
		}
	}
	clear(l.waiters[len(kept):])
	l.waiters = kept
}

// known waits for a call of another lane to end; of this one it takes what is
// known.
func (l *lane) known(w *work) error {
	if w != nil && w.lane != l {
		return w.wait(context.Background())
	}
	return w.failure()
}

// undo deletes what launch has allocated so far.
func (l *lane) undo(donated uint64, err error) error {
	for k, b := range l.out {
		if donated>>k&1 == 0 {
			err = errors.Join(err, b.Delete())
		}
	}
	return err
}
