package rundir

import "math"

// maxStretches is the most stretches that a gap remembers: about 2 MiB of memory.
const maxStretches = 1 << 14

// gap is the newest lines of a run's metrics, without their text. The run has the
// losses of steps anyway: a step takes 16 bytes here, for its other numbers.
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
	loss               int           // index of the first step's loss
	end                *BoundaryLine // nil: there is none yet
}

// add remembers a line, and reports whether there is room for it. loss is the
// index of a step's loss.
func (g *gap) add(line Line, loss int) bool {
	s := &stretch{}
	if n := len(g.stretches); n > 0 {
		s = &g.stretches[n-1]
	}
	switch l := line.(type) {
	case StepLine:
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
	case BoundaryLine:
		if s.count > 0 && s.end == nil {
			s.end = &l
			return true
		}
		return g.begin(stretch{end: &l})
	}
	panic("BUG: unknown line of metrics")
}

// keep keeps the numbers of a step that the run does not have anyway.
func (g *gap) keep(l StepLine) {
	norm := math.NaN()
	if l.GradNorm != nil {
		norm = *l.GradNorm
	}
	g.rates, g.norms = append(g.rates, l.LearningRate), append(g.norms, norm)
}

// takes reports whether a step's line continues the stretch.
func (s *stretch) takes(l StepLine) bool {
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
	s := &g.stretches[0]
	var line Line
	if s.count > 0 {
		x := StepLine{Step: s.step, Epoch: s.epoch, Loss: losses[s.loss], LearningRate: g.rates[0]}
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
