package crew

import (
	"context"
	"sync"
	"sync/atomic"

	"github.com/berth-ml/berth/engine/device"
	"github.com/berth-ml/berth/executor/ranks"
)

// counted counts the bytes that this rank sends.
type counted struct {
	ranks.Transport
	sent atomic.Int64
}

// Send implements [ranks.Transport].
func (c *counted) Send(to int, tag ranks.Tag, b []byte) device.Event {
	c.sent.Add(int64(len(b)))
	return c.Transport.Send(to, tag, b)
}

// steps carries the messages of steps. Its Fail ends the waiting of this rank for them, and leaves the messages to [Crew.Cut]:
// until then the ranks can tell each other what went wrong.
type steps struct {
	ranks.Transport
	broken context.Context // ends with Fail
	fail   context.CancelCauseFunc
	mu     sync.Mutex
	queues map[device.Queue]*waits // of the transport's events, one or two
}

func newSteps(t ranks.Transport) *steps {
	s := &steps{Transport: t, queues: map[device.Queue]*waits{}}
	s.broken, s.fail = context.WithCancelCause(context.Background())
	return s
}

// Send implements [ranks.Transport].
func (s *steps) Send(to int, tag ranks.Tag, b []byte) device.Event {
	return s.of(s.Transport.Send(to, tag, b))
}

// Recv implements [ranks.Transport].
func (s *steps) Recv(from int, tag ranks.Tag, b []byte) device.Event {
	return s.of(s.Transport.Recv(from, tag, b))
}

// of is an event of the transport that ends with Fail, too.
func (s *steps) of(e device.Event) device.Event {
	s.mu.Lock()
	defer s.mu.Unlock()
	q := s.queues[e.Queue]
	if q == nil {
		q = &waits{e.Queue, s.broken}
		s.queues[e.Queue] = q
	}
	e.Queue = q
	return e
}

// Fail implements [ranks.Transport].
func (s *steps) Fail(err error) { s.fail(err) }

// waits are a transport's events, all of which end with broken.
type waits struct {
	device.Queue
	broken context.Context
}

// Finished implements [device.Queue].
func (w *waits) Finished(seq uint64) bool { return w.broken.Err() != nil || w.Queue.Finished(seq) }

// Err implements [device.Queue].
func (w *waits) Err(seq uint64) error {
	if w.Queue.Finished(seq) {
		return w.Queue.Err(seq)
	}
	return context.Cause(w.broken)
}

// Await implements [device.Queue].
func (w *waits) Await(ctx context.Context, seq uint64) error {
	if ctx.Done() == nil {
		ctx = w.broken
	} else {
		own, cancel := context.WithCancel(ctx)
		defer cancel()
		defer context.AfterFunc(w.broken, cancel)()
		ctx = own
	}
	err := w.Queue.Await(ctx, seq)
	if w.broken.Err() != nil {
		return w.Err(seq)
	}
	return err
}
