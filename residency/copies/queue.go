package copies

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/berth-ml/berth/engine/device"
)

// mostFailures is the number of failures without a copy between them that ended well
// after which a queue gives up.
const mostFailures = 3

// Queue makes copies to or from one device, in order. A copy that fails is repeated on a new
// stream of its own; later ones go on meanwhile, and do not count as ended before it.
// When the device is lost, or after some failures in a row, the queue has failed, as a
// device's stream fails: all that has not ended fails with the cause.
//
// It repeats copies when someone waits for them, on the goroutine that waits. Its methods
// are safe for concurrent use.
type Queue struct {
	dev  device.Device
	name string // of its streams

	// Held while something is queued on a stream. It is taken before mu.
	queueing sync.Mutex
	stream   device.Stream   // for new copies
	others   []device.Stream // that failed, or repeat copies

	ended  atomic.Uint64 // all copies up to this number have ended
	closed atomic.Bool

	// Guards the rest. No device is called with it: devices ask for events with locks of
	// their own.
	mu       sync.Mutex
	queued   uint64         // number of the last copy
	newest   device.Event   // of that copy on the stream on which it was queued first
	waiting  []device.Event // of the copies after ended, on their newest streams
	failures []error        // not yet returned by Failures
	unmended []error        // the failures since a copy ended well
	broken   []device.Queue // of the streams that failed
	failed   uint64         // number of the first copy that failed for good, or 0
	err      error          // its failure
}

// Open opens a queue on a device, with streams of a name.
func Open(dev device.Device, name string) (*Queue, error) {
	s, err := dev.NewStream(name)
	if err != nil {
		return nil, err
	}
	return &Queue{dev: dev, name: name, stream: s}, nil
}

// Stream is the stream of the next copy, for which its memory is to be taken. It takes the
// place of one that failed, until this is called again.
func (q *Queue) Stream() (device.Stream, error) {
	q.queueing.Lock()
	defer q.queueing.Unlock()
	if q.stream.Record().Err() == nil {
		return q.stream, nil
	}
	s, err := q.dev.NewStream(q.name)
	if err != nil {
		return nil, err
	}
	q.others, q.stream = append(q.others, q.stream), s
	return s, nil
}

// CopyIn queues a copy to the device. It begins when all events of after have ended, well
// or not.
func (q *Queue) CopyIn(dst device.Buffer, src device.HostBuffer, after device.Fence) (device.Event, error) {
	return q.put(after, func(s device.Stream) (device.Event, error) {
		err := s.CopyIn(dst, src)
		return s.Record(), err
	})
}

// CopyPeer is CopyIn from another device of the same kind.
func (q *Queue) CopyPeer(dst, src device.Buffer, after device.Fence) (device.Event, error) {
	return q.put(after, func(s device.Stream) (device.Event, error) {
		err := s.CopyPeer(dst, src)
		return s.Record(), err
	})
}

// CopyOut is CopyIn from the device to the host.
func (q *Queue) CopyOut(dst device.HostBuffer, src device.Buffer, after device.Fence) (device.Event, error) {
	return q.put(after, func(s device.Stream) (device.Event, error) { return s.CopyOut(dst, src) })
}

// put queues a copy on the stream that Stream gave last.
func (q *Queue) put(after device.Fence, copy func(device.Stream) (device.Event, error)) (device.Event, error) {
	q.queueing.Lock()
	defer q.queueing.Unlock()
	for _, e := range after {
		if e.Done() {
			continue
		}
		if err := q.stream.WaitForEnd(e); err != nil {
			return device.Event{}, err
		}
	}
	e, err := copy(q.stream)
	if err != nil {
		return device.Event{}, err
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	q.queued++
	q.newest = e
	q.waiting = append(q.waiting, e)
	return device.Event{Queue: q, Seq: q.queued}, nil
}

// Record is the event of everything queued so far.
func (q *Queue) Record() device.Event {
	q.mu.Lock()
	defer q.mu.Unlock()
	return device.Event{Queue: q, Seq: q.queued}
}

// Newest is the event of the copy queued last, as its device's spans have it: device.Span.
func (q *Queue) Newest() device.Event {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.newest
}

// Failures returns the failures after which copies were repeated and ended, well or not,
// each once.
func (q *Queue) Failures() []error {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.advance()
	list := q.failures
	q.failures = nil
	return list
}

// Close waits for the copies that are queued, and closes the streams. Nothing may be
// queued any more.
func (q *Queue) Close() error {
	_ = q.Await(context.Background(), q.Record().Seq) // a failure is told to those who use the contents
	q.queueing.Lock()
	defer q.queueing.Unlock()
	var errs []error
	for _, s := range append(q.others, q.stream) {
		errs = append(errs, s.Close())
	}
	q.closed.Store(true)
	return errors.Join(errs...)
}

// Closed reports whether the queue was closed: then all copies have ended.
func (q *Queue) Closed() bool { return q.closed.Load() }

// Finished reports whether copy seq and those before it have ended.
func (q *Queue) Finished(seq uint64) bool {
	if q.ended.Load() >= seq {
		return true
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	q.advance()
	return q.ended.Load() >= seq
}

// Err is the failure for good of copy seq or of one before it; nil if it has not ended.
func (q *Queue) Err(seq uint64) error {
	if !q.Finished(seq) {
		return nil
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.failed == 0 || seq < q.failed {
		return nil
	}
	return q.err
}

// Await blocks until copy seq and those before it have ended, or ctx is done. It
// repeats those that have failed.
func (q *Queue) Await(ctx context.Context, seq uint64) error {
	for {
		e, failed := q.next(seq)
		switch {
		case e == (device.Event{}):
			return q.Err(seq)
		case failed:
			q.repeat()
		default:
			if err := e.Wait(ctx); err != nil && !e.Done() {
				return err
			}
		}
	}
}

// next is the event to wait for before copy seq has ended, or one that has failed; the
// zero Event if there is none.
func (q *Queue) next(seq uint64) (e device.Event, failed bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.advance()
	ended := q.ended.Load()
	if ended >= seq {
		return device.Event{}, false
	}
	// waiting[0] is copy ended+1, and the last one to wait for is copy seq. If both are on one
	// stream, the end of the last is that of all.
	first, last := q.waiting[0], q.waiting[seq-ended-1]
	switch {
	case first.Done():
		return first, true
	case first.Queue == last.Queue:
		return last, false
	}
	return first, false
}

// advance takes the copies off that have ended. It needs mu.
func (q *Queue) advance() {
	n := 0
	for _, e := range q.waiting {
		if !e.Done() || q.failed == 0 && e.Err() != nil {
			break
		}
		n++
	}
	if n == 0 {
		return
	}
	if q.failed == 0 {
		q.failures = append(q.failures, q.unmended...)
		q.unmended = q.unmended[:0]
	}
	left := copy(q.waiting, q.waiting[n:])
	clear(q.waiting[left:])
	q.waiting = q.waiting[:left]
	q.ended.Add(uint64(n))
}

// repeat queues the copies again that have failed.
func (q *Queue) repeat() {
	q.queueing.Lock()
	defer q.queueing.Unlock()
	failed, cause := q.toRepeat()
	if cause == nil {
		return
	}
	s, err := q.dev.NewStream(q.name)
	if err != nil {
		q.lose(fmt.Errorf("%w; repeating the copy: %w", cause, err))
		return
	}
	q.others = append(q.others, s)
	for i, e := range failed {
		if failed[i], err = s.Repeat(e); err != nil {
			q.lose(fmt.Errorf("%w; repeating the copy: %w", cause, err))
			return
		}
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	copy(q.waiting, failed)
}

// toRepeat lists the first copies that have not ended well, as far as they have failed on one
// stream, and counts that failure. Without a cause there is nothing to repeat. It needs queueing.
func (q *Queue) toRepeat() (failed []device.Event, cause error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.advance()
	for _, e := range q.waiting {
		if e.Queue != q.waiting[0].Queue || !e.Done() || e.Err() == nil {
			break
		}
		failed = append(failed, e)
	}
	if failed == nil || q.failed > 0 {
		return nil, nil
	}
	cause = failed[0].Err()
	if slices.Contains(q.broken, failed[0].Queue) { // it was counted when the first of its copies was repeated
		return failed, cause
	}
	q.broken = append(q.broken, failed[0].Queue)
	q.unmended = append(q.unmended, cause)
	if len(q.unmended) == mostFailures || errors.Is(cause, device.ErrLost) {
		q.failures = append(q.failures, q.unmended[:len(q.unmended)-1]...) // all but the newest were repeated
		q.giveUp(cause)
		return nil, nil
	}
	return failed, cause
}

// lose is giveUp without mu.
func (q *Queue) lose(cause error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.giveUp(cause)
}

// giveUp makes the copies fail for good that have not ended. It needs mu.
func (q *Queue) giveUp(cause error) {
	q.failed, q.err = q.ended.Load()+1, cause
	q.advance()
}
