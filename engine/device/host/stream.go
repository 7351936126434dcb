package host

import (
	"context"
	"errors"
	"fmt"
	"math"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/berth-ml/berth/engine/device"
)

// ringSize is how many commands may be queued before a queueing call waits for
// room. Waiting cannot deadlock: a command depends only on what was queued
// before it.
const ringSize = 512

// idleSpins is how often an idle stream yields before it sleeps: waking a
// sleeper costs more than most pauses between two commands.
const idleSpins = 32

// Stream implements device.Stream and device.Queue. Command number n stands in
// ring[n%ringSize] from when it is queued until it has ended.
type Stream struct {
	dev  *Device
	name string
	ring [ringSize]command

	holds  []hold        // for the next launch; of the goroutine that queues
	queued atomic.Uint64 // number of the last command queued
	ended  atomic.Uint64 // number of the last command that has ended
	busy   atomic.Int64  // nanoseconds

	mu       sync.Mutex
	work     sync.Cond // something was queued, or the stream is closing
	room     sync.Cond // a command has ended
	asleep   bool      // the goroutine waits on work
	closed   bool
	waiters  []*waiter
	spare    []*waiter
	failed   uint64 // number of the first command that failed, or 0
	err      error  // its error
	reported bool   // err was given to someone

	stopped chan struct{} // closed when the goroutine has ended
}

// waiter is a goroutine in Await.
type waiter struct {
	seq  uint64
	wake chan struct{}
}

// NewStream starts a queue; the goroutine behind it ends in Close.
func (d *Device) NewStream(name string) (device.Stream, error) {
	s := &Stream{dev: d, name: name, stopped: make(chan struct{})}
	s.work.L, s.room.L = &s.mu, &s.mu
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return nil, fmt.Errorf("%s: stream %q: %w", d.spec.ID, name, device.ErrClosed)
	}
	d.streams = append(d.streams, s)
	go s.run()
	return s, nil
}

// Close waits for the queue to end.
func (s *Stream) Close() error {
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return s.closedError()
	}
	s.closed = true
	s.work.Signal()
	s.mu.Unlock()
	<-s.stopped
	d := s.dev
	d.mu.Lock()
	d.streams = slices.DeleteFunc(d.streams, func(o *Stream) bool { return o == s })
	d.mu.Unlock()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.finish(math.MaxUint64) // nobody shall wait for what was never queued
	if s.reported {
		return nil
	}
	s.reported = true
	return s.err
}

func (s *Stream) closedError() error {
	return fmt.Errorf("%s: stream %q: %w", s.dev.spec.ID, s.name, device.ErrClosed)
}

// Busy is how long commands have run.
func (s *Stream) Busy() int64 { return s.busy.Load() }

// Record is the event of everything queued so far.
func (s *Stream) Record() device.Event {
	return device.Event{Queue: s, Seq: s.queued.Load()}
}

// Finished reports whether command seq has ended.
func (s *Stream) Finished(seq uint64) bool { return s.ended.Load() >= seq }

// Err is the failure that command seq met.
func (s *Stream) Err(seq uint64) error {
	if !s.Finished(seq) {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.failed == 0 || seq < s.failed {
		return nil
	}
	s.reported = true
	return s.err
}

// Await blocks until command seq has ended.
func (s *Stream) Await(ctx context.Context, seq uint64) error {
	if err := s.block(ctx, seq); err != nil {
		return err
	}
	return s.Err(seq)
}

// block waits for command seq; its error is ctx's.
func (s *Stream) block(ctx context.Context, seq uint64) error {
	s.mu.Lock()
	if s.Finished(seq) {
		s.mu.Unlock()
		return nil
	}
	var w *waiter
	if n := len(s.spare); n > 0 {
		w, s.spare = s.spare[n-1], s.spare[:n-1]
	} else {
		w = &waiter{wake: make(chan struct{}, 1)}
	}
	w.seq = seq
	s.waiters = append(s.waiters, w)
	s.mu.Unlock()
	var err error
	select {
	case <-w.wake:
	case <-ctx.Done():
		err = ctx.Err()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if err != nil {
		s.waiters = slices.DeleteFunc(s.waiters, func(o *waiter) bool { return o == w })
		select { // it may have been woken meanwhile
		case <-w.wake:
		default:
		}
	}
	s.spare = append(s.spare, w)
	return err
}

// reserve waits for room and returns the number of the next command.
func (s *Stream) reserve() (uint64, error) {
	seq := s.queued.Load() + 1
	s.mu.Lock()
	defer s.mu.Unlock()
	for !s.closed && seq-s.ended.Load() > ringSize {
		s.room.Wait()
	}
	if s.closed {
		return 0, s.closedError()
	}
	return seq, nil
}

// commit queues a command under the number that reserve gave. If the device
// closed the stream meanwhile, the command is released.
func (s *Stream) commit(seq uint64, c command) error {
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		c.release()
		return s.closedError()
	}
	s.ring[seq%ringSize] = c
	s.queued.Store(seq)
	if s.asleep {
		s.work.Signal()
	}
	s.mu.Unlock()
	if s.dev.config.Sync {
		// The failure, if any, is reported by the event, as without Sync.
		_ = s.block(context.Background(), seq)
	}
	return nil
}

// run is the stream's goroutine: it ends when the stream is closed and
// everything queued has ended.
func (s *Stream) run() {
	defer close(s.stopped)
	for seq := uint64(1); s.await(seq); seq++ {
		c := &s.ring[seq%ringSize]
		s.mu.Lock()
		err := s.err
		s.mu.Unlock()
		if err == nil {
			err = s.do(c)
		}
		c.release()
		*c = command{}
		s.end(seq, err)
	}
}

// do runs one command and counts its time.
func (s *Stream) do(c *command) error {
	if c.op == opWait {
		return c.event.Wait(context.Background())
	}
	if c.op == opLaunch {
		s.dev.running.Lock()
		defer s.dev.running.Unlock()
	}
	start := time.Now()
	err := c.run()
	end := time.Now()
	busy := end.Sub(start)
	if c.op == opLaunch {
		busy -= c.launch.waited
	}
	s.busy.Add(int64(busy))
	if tell := s.dev.config.OnSpan; tell != nil {
		tell(device.Span{Device: s.dev.spec.ID, Stream: s.name, What: c.what(), Start: start, End: end})
	}
	return err
}

// await waits until command seq is queued; false means it never will be.
func (s *Stream) await(seq uint64) bool {
	for i := 0; i < idleSpins; i++ {
		if s.queued.Load() >= seq {
			return true
		}
		runtime.Gosched()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for s.queued.Load() < seq {
		if s.closed {
			return false
		}
		s.asleep = true
		s.work.Wait()
		s.asleep = false
	}
	return true
}

// end makes command seq count as ended and wakes who waits for it.
func (s *Stream) end(seq uint64, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err != nil && s.failed == 0 {
		s.failed, s.err = seq, err
	}
	s.finish(seq)
}

// finish marks commands up to seq as ended. It needs s.mu.
func (s *Stream) finish(seq uint64) {
	s.ended.Store(seq)
	s.room.Signal()
	kept := s.waiters[:0]
	for _, w := range s.waiters {
		if w.seq > seq {
			kept = append(kept, w)
			continue
		}
		w.wake <- struct{}{} // has room: one wake per wait
	}
	clear(s.waiters[len(kept):])
	s.waiters = kept
}

// wrap puts what failed in front of an error.
func (s *Stream) wrap(what string, err error) error {
	if errors.Is(err, device.ErrClosed) {
		return err
	}
	return fmt.Errorf("%s: stream %q: %s: %w", s.dev.spec.ID, s.name, what, err)
}
