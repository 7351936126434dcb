package host

import (
	"errors"
	"slices"

	"github.com/berth-ml/berth/engine/device"
)

// failure is a copy that has failed or was skipped. Its buffers stay pinned.
type failure struct {
	seq  uint64
	copy command
}

// errNotFailed says that an event is of no copy that can be repeated.
var errNotFailed = errors.New("the event is of no failed copy on an open stream of this device: repeat a copy once, before its stream is closed")

// keep keeps a command that failed, if it can be repeated.
func (q *queue) keep(seq uint64, c *command) bool {
	if c.op != opCopyIn && c.op != opCopyOut && c.op != opCopyPeer {
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
	i := slices.IndexFunc(q.failures, func(f failure) bool { return f.seq == seq })
	if i < 0 {
		return command{}, false
	}
	c := q.failures[i].copy
	q.failures = slices.Delete(q.failures, i, i+1)
	return c, true
}

// forgetFailures releases the commands that were kept.
func (q *queue) forgetFailures() {
	q.mu.Lock()
	list := q.failures
	q.failures = nil
	q.mu.Unlock()
	for i := range list {
		list[i].copy.release()
	}
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
