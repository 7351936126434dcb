package host

import (
	"context"
	"slices"
	"time"

	"github.com/berth-ml/berth/engine/device"
)

// hold is an event that the next launch waits for where it first writes a
// buffer.
type hold struct {
	buffer device.Buffer
	event  device.Event
}

// Hold implements device.Holder.
func (s *Stream) Hold(b device.Buffer, e device.Event) {
	if !e.Done() {
		s.holds = append(s.holds, hold{b, e})
	}
}

// holdsOf leaves of s.holds those that a launch can wait for where it writes;
// for the others s waits now. A launch that waits keeps others from the
// device, and so must not wait for one of them: the device's launches all come
// from one stream then, and what an event depends on was queued before.
func (s *Stream) holdsOf(x *executable, in []device.Buffer) error {
	alone := s.alone() && s.dev.config.Bind != nil
	kept := s.holds[:0]
	for _, h := range s.holds {
		if j := slices.Index(in, h.buffer); alone && j >= 0 && x.donated[j] && h.event.Queue != device.Queue(s) {
			kept = append(kept, h)
			continue
		}
		if err := s.WaitFor(h.event); err != nil {
			return err
		}
	}
	clear(s.holds[len(kept):])
	s.holds = kept
	return nil
}

// alone reports whether no other stream has launched anything on the device.
func (s *Stream) alone() bool {
	d := s.dev
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.launcher == nil {
		d.launcher = s
	}
	d.launchers = d.launchers || d.launcher != s
	return !d.launchers
}

// take makes the holds the launch's.
func (l *launch) take(holds []hold, in []device.Buffer) {
	for _, h := range holds {
		l.held[slices.Index(in, h.buffer)] = h.event
		l.holding = true
	}
}

// await waits for what the instruction that runs overwrites. How the event
// ended does not matter: who reads the buffer is told.
func (l *launch) await(in *instr) {
	for _, j := range in.first {
		e := l.held[j]
		if e.Done() {
			continue
		}
		start := time.Now()
		_ = e.Wait(context.Background())
		l.waited += time.Since(start)
	}
}

// letGo forgets what was held.
func (l *launch) letGo() {
	if l.holding {
		clear(l.held)
		l.holding, l.waited = false, 0
	}
}

// firsts notes with each instruction which donated inputs' memory it is the
// first to write, given what each writes.
func (x *executable) firsts(p *plan, st *step, in *instr, seen []bool) {
	for _, s := range st.out {
		j := -1
		switch {
		case s.place == inInput:
			j = s.index
		case s.place == inOutput:
			j = p.alias[s.index]
		}
		if j >= 0 && !seen[j] {
			seen[j] = true
			in.first = append(in.first, j)
		}
	}
}
