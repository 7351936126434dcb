package streams

import (
	"errors"

	"github.com/berth-ml/berth/engine/device"
)

// errNotFailed says that an event is of no copy that can be repeated.
var errNotFailed = errors.New("the event is of no failed copy on an open stream of this device: repeat a copy once, before its stream is closed")

// takeFailure is a command that was kept, and keeps it no longer.
func (q *queue) takeFailure(seq uint64) (command, bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.failures.take(seq)
}

// Repeat queues a copy again that failed on another stream.
func (s *Stream) Repeat(failed device.Event) (device.Event, error) {
	seq, err := s.reserve()
	if err != nil {
		return device.Event{}, err
	}
	q, ok := failed.Queue.(*queue)
	if !ok || q.device != s.device {
		return device.Event{}, s.wrap("repeat", errNotFailed)
	}
	c, ok := q.takeFailure(failed.Seq)
	if !ok {
		return device.Event{}, s.wrap("repeat", errNotFailed)
	}
	if c.dst != nil {
		c.dst.readyAt(s.event(seq))
	}
	return s.event(seq), s.commit(seq, c)
}
