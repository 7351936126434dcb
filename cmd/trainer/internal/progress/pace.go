package progress

import (
	"time"

	"github.com/berth-ml/berth"
)

// pace measures how fast steps go, as a step is told of: when it is queued behind the one
// that runs. One goroutine uses it.
type pace struct {
	start   berth.Start
	last    int           // the step that the call ends at
	calls   int           // steps since training stood still at a boundary
	told    time.Time     // when the newest was told
	took    time.Duration // that newer steps took; older ones count less and less
	steps   float64       // of that time
	samples float64       // of these steps
	stood   time.Duration // at the newest boundary
}

// forget is the time after which steps count half as much as newer ones.
const forget = 20 * time.Second

// begin is called when a run begins, or begins again. maxSteps may end the call before
// the run's last step; 0: it does not.
func (p *pace) begin(s berth.Start, maxSteps int) {
	*p = pace{start: s, last: s.Steps}
	if maxSteps > 0 {
		p.last = min(p.last, maxSteps)
	}
}

// step is called with each step. The first two after a boundary are told at once: none
// has ended by then.
func (p *pace) step(s berth.Step, now time.Time) {
	p.calls++
	switch took := now.Sub(p.told); {
	case p.calls == 1 && !p.told.IsZero():
		p.stood = took
	case p.calls > 2:
		p.took, p.steps, p.samples = p.took+took, p.steps+1, p.samples+float64(s.Samples)
	}
	p.told = now
	if p.took > forget {
		p.took, p.steps, p.samples = p.took/2, p.steps/2, p.samples/2
	}
}

// boundary is called at a boundary, which measures its steps itself. That counts where
// they were too few to be told one after the other.
func (p *pace) boundary(e berth.Boundary) {
	if p.calls <= 2 {
		p.took, p.steps = p.took+e.Time, p.steps+float64(p.calls)
		p.samples += e.SamplesPerS * e.Time.Seconds()
	}
	p.calls = 0
}

// known reports whether a step has ended.
func (p *pace) known() bool { return p.took > 0 }

// rate is samples a second.
func (p *pace) rate() float64 { return p.samples / p.took.Seconds() }

// stretch is the steps between boundaries.
func (p *pace) stretch() int {
	if p.start.Boundary > 0 {
		return p.start.Boundary
	}
	return max(1, p.start.StepsPerEpoch)
}

// each is the time of a step.
func (p *pace) each() time.Duration { return time.Duration(float64(p.took) / p.steps) }

// left is the time until the call ends, after a step.
func (p *pace) left(step int) time.Duration {
	steps := max(0, p.last-step)
	boundaries := (steps + p.stretch() - 1) / p.stretch()
	return time.Duration(steps)*p.each() + time.Duration(boundaries)*p.stood
}
