package streams

import (
	"time"

	"github.com/berth-ml/berth/engine/device"
)

// Run implements device.Runner.
func (s *Stream) Run(x device.Executable, in, out []device.Buffer, scratch device.Buffer) (done device.Event, ok bool, err error) {
	e, known := x.(*executable)
	if !known || e == nil || e.heap != s.base.heap || !s.base.config.RunsHere || s.onSpan != nil || len(s.reads)+len(s.writes) > 0 {
		return done, false, nil // Launch tells of mistakes
	}
	if !s.counted {
		s.base.alone(&s.queue)
		s.counted = true
	}
	if !s.base.turn.TryLock() {
		return done, false, nil
	}
	defer s.base.turn.Unlock()
	seq, ok := s.enter(e.graph.Name)
	if !ok {
		return done, false, nil
	}
	seq += uint64(e.marks)
	done = s.event(seq)
	l, err := e.prepare(in, out, scratch, done)
	if err != nil {
		s.leave(0, nil)
		return device.Event{}, false, s.wrap("launch of "+e.graph.Name, err)
	}
	err = l.run()
	l.release()
	s.leave(seq, err)
	return done, true, err
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
