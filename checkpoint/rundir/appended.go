package rundir

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"path/filepath"

	"github.com/berth-ml/berth/checkpoint/runstate"
	"github.com/berth-ml/berth/engine/osfile"
)

// appended is a file that a run appends to: whole pieces, such as lines. What a
// full disk does not take waits. Metrics and events have one each.
type appended struct {
	path    string
	f       *os.File    // nil: it is made at the first write
	opened  fs.FileInfo // of f
	warn    func(string)
	whole   func([]byte) int // bytes of the whole pieces at the beginning of some
	waiting []byte           // whole pieces to write
	failed  bool             // the newest flush did, which was said
}

const (
	maxWaiting = 1 << 20  // bytes
	flushAt    = 64 << 10 // bytes of waiting pieces that are flushed at once
)

// use has a write to f.
func (a *appended) use(f *os.File) (err error) {
	a.f = f
	a.opened, err = f.Stat()
	return err
}

// flush writes the pieces that wait, then those that more adds. If that fails they keep
// waiting, and one warning is given.
func (a *appended) flush(more func() bool) {
	err := a.write(more)
	if err != nil && !a.failed {
		a.warn(fmt.Sprintf("%s cannot be written for now, training goes on: %v", filepath.Base(a.path), err))
	}
	a.failed = err != nil
}

// write is flush, and says nothing. more reports whether it made any wait.
func (a *appended) write(more func() bool) error {
	if err := a.find(); err != nil {
		return err
	}
	for {
		if err := a.writeWaiting(); err != nil {
			return err
		}
		if !more() {
			return nil
		}
	}
}

// writeWaiting writes the pieces that wait. Those that it could not write wait on.
func (a *appended) writeWaiting() error {
	n, err := a.f.Write(a.waiting)
	if whole := a.whole(a.waiting[:n]); err != nil && n > whole && a.cut(n-whole) == nil {
		n = whole
	}
	a.waiting = append(a.waiting[:0], a.waiting[n:]...)
	return err
}

// cut takes the newest n bytes off the file, which a full disk allows.
func (a *appended) cut(n int) error {
	end, err := a.f.Seek(0, io.SeekEnd)
	if err != nil {
		return err
	}
	if err := a.f.Truncate(end - int64(n)); err != nil {
		return err
	}
	_, err = a.f.Seek(0, io.SeekEnd)
	return err
}

// find makes the file, and makes it anew with all its pieces if it was removed. If
// its folder was moved, a goes on with the file there.
func (a *appended) find() error {
	st, err := os.Lstat(a.path)
	switch {
	case err == nil && a.f != nil && os.SameFile(st, a.opened):
		return nil
	case err == nil:
		return fmt.Errorf("%s is another file than the one that the run writes: move it away", a.path)
	case !errors.Is(err, fs.ErrNotExist):
		return err
	}
	f, err := osfile.Open(a.path, os.O_RDWR|os.O_APPEND|os.O_CREATE|os.O_EXCL)
	if errors.Is(err, fs.ErrNotExist) && a.f != nil {
		return nil
	}
	if err != nil {
		return err
	}
	if a.f == nil {
		return a.use(f)
	}
	old := a.f
	if _, err = io.Copy(f, io.NewSectionReader(old, 0, math.MaxInt64)); err == nil {
		err = a.use(f)
	}
	if err != nil {
		a.f = old
		return errors.Join(err, f.Close(), os.Remove(a.path))
	}
	a.warn(fmt.Sprintf("%s was removed while the run wrote it: it is there again, with all lines", filepath.Base(a.path)))
	return old.Close()
}

// lacks says which pieces are lost, and why, and returns them; nil: none.
func (a *appended) lacks(pieces string, lost *Lost, why error) *Lost {
	if lost.Lines == 0 {
		return nil
	}
	text := fmt.Sprintf("%s lacks %d of its %s, of steps %d to %d", filepath.Base(a.path), lost.Lines, pieces, lost.FirstStep, lost.LastStep)
	if why != nil {
		text += fmt.Sprintf(": %v", why)
	}
	a.warn(text)
	return lost
}

func (a *appended) close() error {
	if a.f == nil {
		return nil
	}
	return a.f.Close()
}

// maxStretches is the most stretches that a gap remembers: about 2 MiB of memory.
const maxStretches = 1 << 14

// gap is the newest lines of a run's metrics, without their text. The run has the
// losses of steps anyway: a step takes 16 bytes here, for its other numbers. Metrics owns it.
type gap struct {
	stretches []stretch // in order; none is empty
	rates     []float64 // learning rates of the steps, in order
	norms     []float64 // gradient norms of the steps; NaN: none
}

// stretch is the lines of steps in one epoch, at equal distances, and of the
// boundary after them.
type stretch struct {
	step, every, count int // the steps: count of them, from step on
	epoch              int
	loss               int                // index of the first step's loss
	end                *runstate.Boundary // nil: there is none yet
}

// add remembers a line, and reports whether there is room for it. loss is the
// index of a step's loss.
func (g *gap) add(line Line, loss int) bool {
	// A line goes on with the newest stretch if it is the next of its steps, or their boundary;
	// another begins a stretch.
	s := &stretch{}
	if n := len(g.stretches); n > 0 {
		s = &g.stretches[n-1]
	}
	switch l := line.(type) {
	case runstate.Step:
		if s.takes(l) {
			s.every = (l.Step - s.step) / s.count
			s.count++
			g.keep(l)
			return true
		}
		if !g.begin(stretch{step: l.Step, count: 1, epoch: l.Epoch, loss: loss}) {
			return false
		}
		g.keep(l)
		return true
	case runstate.Boundary:
		if s.count > 0 && s.end == nil {
			s.end = &l
			return true
		}
		return g.begin(stretch{end: &l})
	}
	panic("BUG: unknown line of metrics")
}

// keep keeps the numbers of a step that the run does not have anyway.
func (g *gap) keep(l runstate.Step) {
	norm := math.NaN()
	if l.GradNorm != nil {
		norm = *l.GradNorm
	}
	g.rates, g.norms = append(g.rates, l.LearningRate), append(g.norms, norm)
}

// takes reports whether a step's line continues the stretch.
func (s *stretch) takes(l runstate.Step) bool {
	return s.count > 0 && s.end == nil && s.epoch == l.Epoch && (s.count == 1 || l.Step == s.step+s.count*s.every)
}

// begin adds a stretch, if there is room.
func (g *gap) begin(s stretch) bool {
	if len(g.stretches) == maxStretches {
		return false
	}
	g.stretches = append(g.stretches, s)
	return true
}

// next forgets the oldest line and returns it; nil if there is none.
func (g *gap) next(losses []float64) Line {
	if len(g.stretches) == 0 {
		return nil
	}
	// The oldest stretch gives its steps one by one, each with the first of the rates and norms
	// left, and then its boundary. With nothing left it goes.
	s := &g.stretches[0]
	var line Line
	if s.count > 0 {
		x := runstate.Step{Step: s.step, Epoch: s.epoch, Loss: losses[s.loss], LearningRate: g.rates[0]}
		if norm := g.norms[0]; !math.IsNaN(norm) {
			x.GradNorm = &norm
		}
		line, g.rates, g.norms = x, g.rates[1:], g.norms[1:]
		s.step, s.loss, s.count = s.step+s.every, s.loss+1, s.count-1
	} else {
		line, s.end = *s.end, nil
	}
	if s.count == 0 && s.end == nil {
		g.stretches = g.stretches[1:]
	}
	return line
}
