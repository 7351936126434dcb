package ranks

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/berth-ml/berth/engine/device"
	"github.com/berth-ml/berth/internal/prompt"
)

// Line carries buffers from this rank to another one, or from there to this one, in their
// order. Each goes on its way once an event has ended, such as that of the launch that
// writes it. The line is the queue of events that tell of the ends, as a stream is; nobody
// waits to add a buffer. If the event has failed, all messages of the rank do: see
// [Transport.Fail]. Once the line is as long as it ever gets, that allocates nothing.
type Line struct {
	transport Transport
	peer      int
	sends     bool
	begun     Operations    // one for each buffer, which ends when it is posted
	ended     atomic.Uint64 // number of the last buffer whose message has ended
	stopped   chan struct{} // closed when the goroutine has ended
	adding    sync.Mutex    // has one Add at a time

	// mu is held for short, and while nothing else is asked for: a device asks whether an event of
	// the line has ended while it holds the lock that Keep and Leave take.
	mu     sync.Mutex
	more   sync.Cond // a buffer was added, or the line is closing
	ring   []onWay   // by number modulo its length: the buffers that were not left
	added  uint64    // number of the last one
	posted uint64
	left   uint64 // number of the last one that was left
	failed uint64 // number of the first that failed; 0: none has
	err    error  // its error
	closed bool
}

// Memory is what a line sends, or receives into. A [device.Shared] is one, and [Host] another.
type Memory interface {
	// Bytes may be used between Keep and Leave.
	Bytes() []byte
	// Keep keeps the memory until Leave. written is the event of the end where it is written.
	Keep(written device.Event) error
	// Wrote tells that the contents are others, before they are written.
	Wrote()
	Leave()
}

// Host is host memory for a line. Its owner keeps it until the event of the end.
type Host struct{ device.HostBuffer }

// Keep does nothing, as do the next two.
func (Host) Keep(device.Event) error { return nil }

// Wrote implements [Memory].
func (Host) Wrote() {}

// Leave implements [Memory].
func (Host) Leave() {}

// Label says what a buffer is, for people.
type Label struct {
	Step uint64
	What string // "receive of grad/w3"
}

// onWay is a buffer whose message has not ended. Its line owns it.
type onWay struct {
	label  Label
	since  time.Time // when it was posted
	buffer Memory
	after  device.Event
	begun  device.Event // when it is posted
	done   device.Event // the transport's, once it is posted
}

// ahead is the most messages of a line that are posted at once.
const ahead = 64

// NewLine makes a line to another rank (sends), or from there. Both ranks add the same
// buffers in the same order. The caller closes it.
func NewLine(t Transport, peer int, sends bool) *Line {
	l := &Line{transport: t, peer: peer, sends: sends, ring: make([]onWay, ahead), stopped: make(chan struct{})}
	l.more.L = &l.mu
	go l.run()
	return l
}

// Add sends a buffer, or receives into it, after an event. It keeps the buffer until the
// event that it returns, after which the contents are there, or may be overwritten.
func (l *Line) Add(b Memory, after device.Event, label Label) (device.Event, error) {
	l.adding.Lock()
	defer l.adding.Unlock()
	l.leave()
	done := device.Event{Queue: l, Seq: l.added + 1}
	written := done
	if l.sends {
		written = device.Event{}
	}
	if err := b.Keep(written); err != nil {
		return device.Event{}, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.added-l.left == uint64(len(l.ring)) {
		l.grow()
	}
	l.added++
	*l.at(l.added) = onWay{label: label, buffer: b, after: after, begun: l.begun.Begin()}
	l.more.Signal()
	return done, nil
}

// at is the place of a buffer in the ring. It needs mu, as do the next ones.
func (l *Line) at(seq uint64) *onWay { return &l.ring[seq%uint64(len(l.ring))] }

// grow doubles the ring.
func (l *Line) grow() {
	before := l.ring
	l.ring = make([]onWay, 2*len(before))
	for seq := l.left + 1; seq <= l.added; seq++ {
		*l.at(seq) = before[seq%uint64(len(before))]
	}
}

// settle notes the messages that have ended.
func (l *Line) settle() {
	for seq := l.ended.Load() + 1; seq <= l.posted && l.at(seq).done.Done(); seq++ {
		if err := l.at(seq).done.Err(); err != nil {
			l.fail(seq, err)
		}
		l.ended.Store(seq)
	}
}

// leave ends the use of the buffers whose messages have ended.
func (l *Line) leave() {
	for {
		l.mu.Lock()
		l.settle()
		if l.left == l.ended.Load() {
			l.mu.Unlock()
			return
		}
		l.left++
		b := l.at(l.left).buffer
		*l.at(l.left) = onWay{}
		l.mu.Unlock()
		b.Leave()
	}
}

// fail notes the failure of a buffer's message.
func (l *Line) fail(seq uint64, err error) {
	if l.failed == 0 || seq < l.failed {
		where := "from"
		if l.sends {
			where = "to"
		}
		l.failed, l.err = seq, fmt.Errorf("%s rank %d: %w", where, l.peer, err)
	}
}

// run posts the buffers, each in its turn.
func (l *Line) run() {
	defer close(l.stopped)
	for seq := uint64(1); ; seq++ {
		x, before, ok := l.next(seq)
		if !ok {
			return
		}
		_ = before.Wait(context.Background()) // the line tells of its failure
		err := x.after.Wait(context.Background())
		l.leave()
		var done device.Event
		if l.inOrder(seq, err) {
			done = l.post(x.buffer)
		}
		l.mu.Lock()
		l.at(seq).done, l.at(seq).since, l.posted = done, time.Now(), seq
		l.mu.Unlock()
		l.begun.End(x.begun, nil)
		if err != nil { // others would wait for what does not come, and this rank for them
			l.transport.Fail(fmt.Errorf("%w: %w", ErrEnded, err))
		}
	}
}

// inOrder reports whether a buffer can be posted: neither it nor one before it has failed. err is that of its own
// event. What comes after a failure is not there, and the order of messages is lost.
func (l *Line) inOrder(seq uint64, err error) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.err == nil && err != nil {
		l.fail(seq, err)
	}
	return l.err == nil
}

// post hands a buffer to the transport.
func (l *Line) post(b Memory) device.Event {
	if l.sends {
		return l.transport.Send(l.peer, TagTensor, b.Bytes())
	}
	b.Wrote()
	return l.transport.Recv(l.peer, TagTensor, b.Bytes())
}

// next waits for a buffer to be added. before is the message that must end before its own is posted.
func (l *Line) next(seq uint64) (x onWay, before device.Event, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	prompt.Wake()
	for l.added < seq && !l.closed {
		l.more.Wait()
	}
	if l.added < seq {
		return x, before, false
	}
	if seq > ahead && seq-ahead > l.ended.Load() {
		before = l.at(seq - ahead).done
	}
	return *l.at(seq), before, true
}

// Record is the event of all buffers that were added so far.
func (l *Line) Record() device.Event {
	l.mu.Lock()
	defer l.mu.Unlock()
	return device.Event{Queue: l, Seq: l.added}
}

// Finished implements [device.Queue].
func (l *Line) Finished(seq uint64) bool {
	if l.ended.Load() >= seq {
		return true
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.settle()
	return l.ended.Load() >= seq
}

// Err implements [device.Queue].
func (l *Line) Err(seq uint64) error {
	if !l.Finished(seq) {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.failed == 0 || seq < l.failed {
		return nil
	}
	return l.err
}

// Await implements [device.Queue].
func (l *Line) Await(ctx context.Context, seq uint64) error {
	for !l.Finished(seq) {
		if e := l.missing(seq); e.Wait(ctx) != nil && !e.Done() {
			return ctx.Err()
		}
	}
	l.leave()
	return l.Err(seq)
}

// missing is the next event for which a buffer waits: its own, and then those of buffers before it, which mostly have
// ended by then.
func (l *Line) missing(seq uint64) device.Event {
	l.mu.Lock()
	defer l.mu.Unlock()
	if seq <= l.left { // it has ended
		return device.Event{}
	}
	if seq > l.posted {
		return l.at(seq).begun
	}
	if e := l.at(seq).done; !e.Done() {
		return e
	}
	l.settle()
	if next := l.ended.Load() + 1; next <= seq {
		return l.at(next).done
	}
	return device.Event{}
}

// Open is the message that was posted first of those that have not ended, and since when it waits for the other
// rank. ok is false if there is none.
func (l *Line) Open() (label Label, since time.Time, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.settle()
	seq := l.ended.Load() + 1
	if seq > l.posted {
		return label, since, false
	}
	return l.at(seq).label, l.at(seq).since, true
}

// Closed reports whether the line was closed, so that all of its messages have ended.
func (l *Line) Closed() bool {
	select {
	case <-l.stopped:
		return l.Finished(l.Record().Seq)
	default:
		return false
	}
}

// Close waits for the messages of all buffers. Its error is the first failure.
func (l *Line) Close() error {
	l.mu.Lock()
	l.closed = true
	l.more.Signal()
	l.mu.Unlock()
	<-l.stopped
	return l.Record().Wait(context.Background())
}
