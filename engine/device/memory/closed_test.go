package memory

import (
	"testing"

	"github.com/berth-ml/berth/engine/device"
)

// closing is a queue that can be closed.
type closing struct {
	queue
	closed bool
}

func (q *closing) Closed() bool { return q.closed }

// TestClosedQueues: nobody waits for uses in a queue that was closed, and nothing
// grows with the number of such queues.
func TestClosedQueues(t *testing.T) {
	s, taker := New(64, 1), &queue{"taker"}
	for range 100 {
		q := &closing{}
		b, _, ok := s.Take(64, q)
		if !ok {
			t.Fatal("the space is not free")
		}
		s.Passed(device.Event{Queue: q, Seq: 1})
		s.Give(b, device.Event{Queue: q, Seq: 2})
		if b, after, _ := s.Take(64, taker); len(after) != 1 {
			t.Fatalf("a taker waits for %v", after)
		} else {
			s.Give(b, device.Event{Queue: q, Seq: 3})
		}
		q.closed = true
		if b, after, _ := s.Take(64, taker); len(after) != 0 {
			t.Fatalf("a taker waits for %v of a closed queue", after)
		} else {
			s.Give(b, device.Event{Queue: q, Seq: 4})
		}
	}
	if len(s.passed) > 1 {
		t.Errorf("the space knows %d queues", len(s.passed))
	}
	if b, after, _ := s.Take(64, taker); len(after) != 0 || len(b.uses) != 0 {
		t.Errorf("uses of closed queues: %v, %v", after, b.uses)
	}
}
