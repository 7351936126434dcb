package streams

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/berth-ml/berth/engine/device"
	"github.com/berth-ml/berth/internal/prompt"
)

// idleSpins is the number of times that an idle queue yields before it sleeps.
// Waking a sleeper costs more than most pauses between two commands.
const idleSpins = 32

// queue runs commands in the order in which they were queued, on a goroutine of its own. It
// implements device.Queue. A stream owns it.
type queue struct {
	device  device.ID
	name    string
	sync    bool              // wait for each launch that is queued
	onSpan  func(device.Span) // told of every operation as it ends; may be nil
	ctx     context.Context   // of the device: ends when it is given up
	running *sync.WaitGroup   // counts the device's goroutines and commands that use its memory

	queued atomic.Uint64 // number of the last command queued
	added  atomic.Uint64 // how many of them went through backlog; the others ran at once
	ended  atomic.Uint64 // number of the last command that has ended
	busy   atomic.Int64  // nanoseconds that commands took, waiting excluded

	mu       sync.Mutex
	backlog  backlog
	work     sync.Cond // something was queued, or the queue is closing
	asleep   bool      // the goroutine waits on work
	closed   bool
	lost     error     // the cause for which the device was given up; nil otherwise
	what     string    // the command that runs; empty if none does
	since    time.Time // its start
	waiters  []*waiter
	spare    []*waiter     // for reuse
	failed   uint64        // number of the first command that failed, or 0
	err      error         // its error
	reported bool          // err was given to a caller
	canceled error         // the failure of the next command; nil without Cancel
	slow     time.Duration // by which the next operation that is queued takes longer
	failures failures      // copies that Repeat can repeat

	stopped chan struct{} // closed when the goroutine has ended
}

// waiter is a goroutine in Await.
type waiter struct {
	seq  uint64
	wake chan struct{}
	next *waiter // in a list of those to wake
}

// wakeAll wakes a list of waiters, each of which may be reused at once. It is called
// without mu, which they take.
func (w *waiter) wakeAll() {
	for w != nil {
		next := w.next
		w.next = nil
		w.wake <- struct{}{} // has room: one wake per wait
		w = next
	}
}

// start starts the goroutine, which ends in close, or when the device is given
// up. The fields above queued are set.
func (q *queue) start(running *sync.WaitGroup) {
	q.stopped = make(chan struct{})
	q.work.L = &q.mu
	q.running = running
	running.Go(q.run)
}

// close waits for the commands that are queued, unless the device is given up.
// Its error is the first failure, if nobody was told of it.
func (q *queue) close() error {
	q.mu.Lock()
	if q.closed {
		q.mu.Unlock()
		return q.errClosed()
	}
	q.closed = true
	q.work.Signal()
	q.mu.Unlock()
	select {
	case <-q.stopped:
	case <-q.ctx.Done():
	}
	q.forgetFailures()
	q.mu.Lock()
	select {
	case <-q.stopped:
		q.backlog = backlog{}
	default: // the device is given up, and a command may still run
	}
	over := q.finish(allEnded) // nobody shall wait for a command that was never queued
	err := q.err
	if q.reported {
		err = nil
	}
	q.reported = true
	q.mu.Unlock()
	over.wakeAll()
	return err
}

// allEnded is the number up to which all commands of a closed queue have ended,
// also those that were never queued.
const allEnded = math.MaxUint64

// refusal is the failure of a call to a queue that is closed or given up; nil
// while it can be used. It needs mu.
func (q *queue) refusal() error {
	if q.lost == nil && q.closed {
		return q.errClosed()
	}
	return q.lost
}

func (q *queue) errClosed() error {
	return fmt.Errorf("%s: stream %q: %w", q.device, q.name, device.ErrClosed)
}

// Busy is the time that commands took, in nanoseconds.
func (q *queue) Busy() int64 { return q.busy.Load() }

// Record is the event of everything queued so far.
func (q *queue) Record() device.Event { return q.event(q.queued.Load()) }

// event is the event of a command.
func (q *queue) event(seq uint64) device.Event { return device.Event{Queue: q, Seq: seq} }

// Finished tells whether command seq has ended.
func (q *queue) Finished(seq uint64) bool { return q.ended.Load() >= seq }

// Closed tells whether the queue was closed, so that all commands have ended.
func (q *queue) Closed() bool { return q.ended.Load() == allEnded }

// Err is the failure that command seq met.
func (q *queue) Err(seq uint64) error {
	if !q.Finished(seq) {
		return nil
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.failed == 0 || seq < q.failed {
		return nil
	}
	q.reported = true
	return q.err
}

// Await blocks until command seq has ended.
func (q *queue) Await(ctx context.Context, seq uint64) error {
	if err := q.block(ctx, seq); err != nil {
		return err
	}
	return q.Err(seq)
}

// block waits for command seq; its error is ctx's.
func (q *queue) block(ctx context.Context, seq uint64) error {
	q.mu.Lock()
	if q.Finished(seq) {
		q.mu.Unlock()
		return nil
	}
	var w *waiter
	if n := len(q.spare); n > 0 {
		w, q.spare = q.spare[n-1], q.spare[:n-1]
	} else {
		w = &waiter{wake: make(chan struct{}, 1)}
	}
	w.seq = seq
	q.waiters = append(q.waiters, w)
	q.mu.Unlock()
	prompt.Wake()
	var err error
	select {
	case <-w.wake:
	case <-ctx.Done():
		err = ctx.Err()
	}
	if err != nil && !q.withdraw(w) {
		<-w.wake
	}
	q.mu.Lock()
	q.spare = append(q.spare, w)
	q.mu.Unlock()
	return err
}

// withdraw takes a waiter off the list. It reports false if the command has ended: then
// the waiter is woken soon, or was already.
func (q *queue) withdraw(w *waiter) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	n := len(q.waiters)
	q.waiters = slices.DeleteFunc(q.waiters, func(o *waiter) bool { return o == w })
	return len(q.waiters) < n
}

// awaitEnd waits until what e marks has ended, well or not, or ctx has. It counts
// as no report of a failure.
func awaitEnd(ctx context.Context, e device.Event) {
	if q, ok := e.Queue.(*queue); ok {
		_ = q.block(ctx, e.Seq) // fails only with the context
		return
	}
	_ = e.Wait(ctx)
}

// reserve is the number of the next command. A launch takes one more for each of its
// marks; the command has the last of them.
func (q *queue) reserve() (uint64, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.queued.Load() + 1, q.refusal()
}

// commit queues a command under its number. If the queue was closed or given up
// meanwhile, it releases the command.
func (q *queue) commit(seq uint64, c command) error {
	q.mu.Lock()
	if err := q.refusal(); err != nil {
		q.mu.Unlock()
		c.release()
		return err
	}
	c.seq, c.slow = seq, 0
	if c.op != opWait && c.op != opEnd {
		c.slow, q.slow = q.slow, 0
	}
	n := q.added.Load() + 1
	q.backlog.add(n, c)
	q.queued.Store(seq)
	q.added.Store(n)
	asleep := q.asleep
	q.mu.Unlock()
	if asleep {
		q.work.Signal()
	}
	if q.sync && c.op == opLaunch {
		// The event reports a failure, as without sync. Copies are not waited for: who
		// queues them may hold a lock.
		_ = q.block(context.Background(), seq)
	}
	return nil
}

// enter begins a command on the caller's goroutine, and gives its number. It reports
// false if one before it has not ended, or if the queue has failed.
func (q *queue) enter(what string) (seq uint64, ok bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	seq = q.queued.Load()
	if q.ended.Load() != seq || q.failed > 0 || q.canceled != nil || q.refusal() != nil {
		return 0, false
	}
	q.running.Add(1) // its goroutine has not ended: memory is not given back under the command
	q.what, q.since = what, time.Time{}
	return seq + 1, true
}

// leave ends the command that enter has begun; seq is 0 if it did not run. The caller
// reports err.
func (q *queue) leave(seq uint64, err error) {
	var over *waiter
	q.mu.Lock()
	q.what = ""
	if seq > 0 && q.lost == nil {
		if err != nil {
			q.failed, q.err, q.reported = q.ended.Load()+1, err, true
		}
		over = q.finish(seq)
		q.queued.Store(seq)
	}
	q.mu.Unlock()
	over.wakeAll()
	q.running.Done()
}

// run is the queue's goroutine. It ends when the queue is closed or given up, and
// everything queued has ended.
func (q *queue) run() {
	defer close(q.stopped)
	for n := uint64(1); q.await(n); n++ {
		q.mu.Lock()
		c := q.backlog.next(n)
		seq := c.seq
		err, lost := cmp.Or(q.err, q.canceled), q.lost != nil
		q.mu.Unlock()
		switch {
		case lost:
		case err == nil:
			err = q.do(seq, c)
		default:
			c.skip(q.ctx)
		}
		if err == nil || !q.keep(seq, c) {
			c.release()
		}
		*c = command{}
		q.end(seq, err)
	}
}

// do runs command seq and counts its time.
func (q *queue) do(seq uint64, c *command) error {
	switch c.op {
	case opWait:
		return c.event.Wait(q.ctx)
	case opEnd:
		awaitEnd(q.ctx, c.event)
		return nil
	}
	if lock := c.exclusive(); lock != nil {
		lock.Lock()
		defer lock.Unlock()
		if q.ctx.Err() != nil { // another launch did not end for long
			return nil
		}
	}
	start := time.Now()
	q.begin(c.what(), start)
	err := q.dawdle(c.slow)
	if err == nil {
		err = c.run()
	}
	end := time.Now()
	q.begin("", end)
	var waited time.Duration
	if c.op == opLaunch {
		waited = c.launch.waited
	}
	q.busy.Add(int64(end.Sub(start) - waited))
	if q.onSpan != nil {
		q.onSpan(device.Span{Device: q.device, Stream: q.name, What: c.what(), Start: start, End: end, Waited: waited, Event: q.event(seq)})
	}
	return err
}

// dawdle takes time, as a command that is slow. It fails if the device is given up meanwhile.
func (q *queue) dawdle(d time.Duration) error {
	if d <= 0 {
		return nil
	}
	select {
	case <-time.After(d):
		return nil
	case <-q.ctx.Done():
		return q.ctx.Err()
	}
}

// await waits until the nth command is in the backlog; false means that it never will be.
func (q *queue) await(n uint64) bool {
	for i := 0; i < idleSpins; i++ {
		if q.added.Load() >= n {
			return true
		}
		runtime.Gosched()
	}
	prompt.Wake()
	q.mu.Lock()
	defer q.mu.Unlock()
	for q.added.Load() < n {
		if q.closed || q.lost != nil {
			return false
		}
		q.asleep = true
		q.work.Wait()
		q.asleep = false
	}
	return true
}

// end makes command seq count as ended, and wakes those who wait for it.
func (q *queue) end(seq uint64, err error) {
	q.mu.Lock()
	if q.lost != nil { // everything counts as ended already
		q.mu.Unlock()
		return
	}
	if err != nil && q.failed == 0 {
		q.failed, q.err = q.ended.Load()+1, err
	}
	over := q.finish(seq)
	q.mu.Unlock()
	over.wakeAll()
}

// reach ends a mark of the command that runs.
func (q *queue) reach(seq uint64) { q.end(seq, nil) }

// finish marks commands up to seq as ended, and lists those who waited for them. It
// needs mu.
func (q *queue) finish(seq uint64) (over *waiter) {
	q.ended.Store(seq)
	kept := q.waiters[:0]
	for _, w := range q.waiters {
		if w.seq > seq {
			kept = append(kept, w)
		} else {
			w.next, over = over, w
		}
	}
	clear(q.waiters[len(kept):])
	q.waiters = kept
	return over
}

// Cancel makes the commands fail that have not begun.
func (q *queue) Cancel(cause error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.canceled = cmp.Or(q.canceled, cause)
}

// Slow makes the next operation slow.
func (q *queue) Slow(by time.Duration) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.slow = by
}

// begin records the command that runs from now on, and returns the one before. what
// is empty if none does.
func (q *queue) begin(what string, now time.Time) (before string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	before, q.what, q.since = q.what, what, now
	return before
}

// command is the command that runs. Its What is empty if none does.
func (q *queue) command() device.Command {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.what != "" && q.since.IsZero() { // enter does not look at the clock
		q.since = time.Now()
	}
	return device.Command{Stream: q.name, What: q.what, Since: q.since}
}

// giveUp makes all that is queued count as ended. The command that runs and
// those after it have failed with the cause.
func (q *queue) giveUp(cause error) {
	q.mu.Lock()
	q.lost = cause
	if q.failed == 0 {
		q.failed, q.err = q.ended.Load()+1, cause
		q.reported = q.failed > q.queued.Load() // nothing met it
	}
	over := q.finish(allEnded)
	q.work.Signal()
	q.mu.Unlock()
	over.wakeAll()
}

// keep keeps a command that failed, if it can be repeated.
func (q *queue) keep(seq uint64, c *command) bool {
	if !c.repeatable() {
		return false
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed || q.lost != nil {
		return false
	}
	q.failures = append(q.failures, failure{seq, *c})
	return true
}

// takeFailure is a command that was kept, and keeps it no longer.
func (q *queue) takeFailure(seq uint64) (command, bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.failures.take(seq)
}

// forgetFailures releases the commands that were kept.
func (q *queue) forgetFailures() {
	q.mu.Lock()
	list := q.failures
	q.failures = nil
	q.mu.Unlock()
	list.release()
}
