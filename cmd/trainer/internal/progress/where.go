package progress

import (
	"fmt"
	"time"

	"github.com/berth-ml/berth"
	"github.com/berth-ml/berth/internal/units"
)

// soon is the time for which a user waits for a loss before a line says where it comes
// out; far is the time between boundaries from which on the line says how to have more.
const (
	soon = time.Second
	far  = 20 * time.Second
)

// tellWhere says once where losses come out, if none has done so soon.
func (p *Bar) tellWhere(s berth.Step, now time.Time) {
	if p.noted || !p.silent() || now.Sub(p.begun) < soon || !p.pace.known() {
		return
	}
	p.noted = true
	p.line("%s\n", p.where(s))
}

// silent reports whether no loss has come out, and none does before a boundary.
func (p *Bar) silent() bool { return p.loss == nil && p.run.LogEvery == 0 && !p.run.Watched }

// nextLoss is the place of the first loss that comes out after a step, in words, and its step.
func (p *Bar) nextLoss(s berth.Step) (at string, next int) {
	between := p.pace.stretch()
	next = s.Step - s.InEpoch + between
	if p.start.Boundary > 0 {
		next = (s.Step + between - 1) / between * between
	}
	if p.start.Boundary > 0 || next > p.pace.last {
		return fmt.Sprintf("step %d", min(next, p.pace.last)), next
	}
	return "the epoch's end", next
}

// where says where losses come out after a step.
func (p *Bar) where(s berth.Step) string {
	between, of := p.pace.stretch(), "an epoch takes"
	if p.start.Boundary > 0 {
		of = units.Count(between, "step") + " take"
	}
	at, next := p.nextLoss(s)
	line := fmt.Sprintf("loss at %s; --watch shows it now", at)
	if whole := time.Duration(between) * p.pace.each(); whole > far && next <= p.pace.last {
		line += fmt.Sprintf("\n%s about %s; train.boundary: %d brings losses about every 10 s", of, units.Clock(whole), nice(between, whole))
	}
	return line
}

// nice is a round number of steps that take about ten seconds.
func nice(steps int, take time.Duration) int {
	n := max(1, int(float64(steps)*10/take.Seconds()))
	unit := 1
	for unit*10 <= n {
		unit *= 10
	}
	switch {
	case n >= 5*unit:
		return 5 * unit
	case n >= 2*unit:
		return 2 * unit
	}
	return unit
}
