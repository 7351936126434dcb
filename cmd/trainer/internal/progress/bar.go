package progress

import (
	"fmt"
	"io"
	"time"

	"github.com/schollz/progressbar/v3"

	"github.com/berth-ml/berth"
	"github.com/berth-ml/berth/cmd/trainer/internal/console"
	"github.com/berth-ml/berth/cmd/trainer/internal/phase"
	"github.com/berth-ml/berth/cmd/trainer/internal/text"
)

// barWidth is the width of the bar itself in columns.
const barWidth = 16

// Run is the part of a run that its progress shows.
type Run struct {
	Name     string
	Samples  int  // of the training part
	Batch    int  // samples in a full step
	LogEvery int  // steps between logged losses; 0: losses come at boundaries alone
	Watched  bool // losses are shown between boundaries
}

// Bar shows a training: on a terminal a bar per epoch, or one of the whole run where
// boundaries are not the epochs' ends; lines elsewhere.
type Bar struct {
	out   io.Writer
	fancy bool // out is a terminal
	run   Run
	start berth.Start
	bar   *progressbar.ProgressBar // of the current stretch; nil until it is first drawn
	at    int                      // number of the current stretch; -1: none has begun
	loss  string                   // the newest loss read from the device
	begun time.Time                // when this stretch's first step was seen
	first int                      // samples of it done by then: more than one batch after a resume
	drawn time.Time
	told  bool // that boundaries are far apart, or they are not
}

// New shows run on out.
func New(out io.Writer, run Run) *Bar {
	return &Bar{out: out, run: run, fancy: console.Terminal(out) != nil, at: -1, loss: "  loss –"}
}

// Observer tells the bar about a training.
func (p *Bar) Observer() *berth.Observer {
	return &berth.Observer{
		Started: p.started, Step: p.step, Logged: p.logged, Watched: p.watched, Boundary: p.boundary,
		Note: func(text string) { p.line("%s\n", text) },
	}
}

// Clear takes the bar away.
func (p *Bar) Clear() {
	if p.bar != nil {
		p.bar.Clear()
		p.bar = nil
	}
}

// line prints in place of the bar, if there is one; the next step draws it
// again.
func (p *Bar) line(format string, args ...any) {
	p.Clear()
	fmt.Fprintf(p.out, format, args...)
}

func (p *Bar) started(s berth.Start) {
	p.start, p.at = s, -1
	stages := ""
	if s.Stages > 1 {
		stages = fmt.Sprintf(" on %d stages", s.Stages)
	}
	p.line("%s: %s parameters%s, %s %s, %s %s an epoch\n", p.run.Name, text.Commas(s.Parameters), stages,
		text.Commas(int64(p.run.Samples)), text.Plural(p.run.Samples, "sample"),
		text.Commas(int64(s.StepsPerEpoch)), text.Plural(s.StepsPerEpoch, "step"))
}

// stretch is the part of a run that a bar covers: an epoch, or the whole run.
type stretch struct {
	number      int
	name        string
	done, total int // samples
}

// stretchOf is the stretch of a step.
func (p *Bar) stretchOf(s berth.Step) stretch {
	if p.start.Boundary > 0 {
		return stretch{0, p.place(s.Step, s.Epoch), s.Step * p.run.Batch, p.start.Steps * p.run.Batch}
	}
	return stretch{s.Epoch, p.place(s.Step, s.Epoch), min(s.InEpoch*p.run.Batch, p.run.Samples), p.run.Samples}
}

// place is a place in the run, in words; numbers are as wide as the last one.
func (p *Bar) place(step, epoch int) string {
	of := func(name string, n, last int) string {
		return fmt.Sprintf("%s %*d/%d", name, len(fmt.Sprint(last)), n, last)
	}
	switch {
	case p.start.Boundary > 0:
		return of("step", step, p.start.Steps)
	case p.start.Epochs == 0:
		return fmt.Sprintf("epoch %d  ", epoch+1) + of("step", step, p.start.Steps)
	}
	return of("epoch", epoch+1, p.start.Epochs)
}

// step moves the bar on, if it is time to draw it. Without a terminal, a line
// now and then says how far a long stretch is.
func (p *Bar) step(s berth.Step) {
	x, now := p.stretchOf(s), time.Now()
	if x.number != p.at {
		p.at, p.begun, p.drawn, p.first = x.number, now, now, x.done
	}
	if wait := now.Sub(p.drawn); wait < phase.Redraw || !p.fancy && wait < phase.Heartbeat {
		return
	}
	p.drawn = now
	p.tellFar(s, now)
	rate := float64(x.done-p.first) / now.Sub(p.begun).Seconds()
	left := time.Duration(float64(x.total-x.done) / max(rate, 1e-9) * float64(time.Second))
	ahead, speed := fmt.Sprintf("  %s left", text.Clock(left)), fmt.Sprintf("  %.0f samples/s", rate)
	if !p.fancy {
		within := ""
		if p.start.Boundary == 0 && p.start.Epochs > 0 {
			within = fmt.Sprintf("  step %d of %d", s.InEpoch, p.start.StepsPerEpoch)
		}
		fmt.Fprintf(p.out, "%s%s%s%s\n", x.name, within, ahead, speed)
		return
	}
	p.draw(x, p.fit(x.name, p.loss, ahead, speed))
}

// draw draws the bar with its text.
func (p *Bar) draw(x stretch, text string) {
	if p.bar == nil {
		p.bar = newBar(p.out, x.total)
	}
	// The last step stays in sight while the validation runs: a full bar
	// would take itself away. Describing draws, and so comes last.
	p.bar.Set(min(x.done, x.total-1))
	p.bar.Describe(text)
}

// fit joins as many of the texts as leave room for a bar on the terminal's
// line: a bar broken over two lines could not be drawn again in place.
func (p *Bar) fit(texts ...string) string {
	const bar = barWidth + 10 // and the percentage, and a ^C
	room, text := console.Width(p.out)-bar, ""
	for _, t := range texts {
		if len(text)+len(t) > room {
			break
		}
		text += t
	}
	return text
}

// newBar is a bar over samples; rate and time left are in its text.
func newBar(out io.Writer, samples int) *progressbar.ProgressBar {
	return progressbar.NewOptions(max(2, samples),
		progressbar.OptionSetWriter(out), progressbar.OptionUseANSICodes(true), progressbar.OptionSetElapsedTime(false),
		progressbar.OptionSetPredictTime(false), progressbar.OptionSetWidth(barWidth))
}

func (p *Bar) logged(s berth.Step) {
	p.loss = "  loss " + text.Loss(s.Loss)
	if !p.fancy && p.run.LogEvery > 0 {
		fmt.Fprintf(p.out, "step %d  loss %s\n", s.Step, text.Loss(s.Loss))
	}
}

func (p *Bar) watched(s berth.Step) {
	p.loss = "  loss " + text.Loss(s.Loss)
	if !p.fancy {
		fmt.Fprintf(p.out, "%s  loss %s\n", p.place(s.Step, s.Epoch), text.Loss(s.Loss))
	}
}

// far is the time between boundaries from which on a user is told how to see losses
// before; steps are measured for so long first.
const (
	far     = 20 * time.Second
	measure = 2 * time.Second
)

// tellFar says once how to see losses before a boundary that is far.
func (p *Bar) tellFar(s berth.Step, now time.Time) {
	if p.told || !p.fancy || p.run.LogEvery > 0 || p.run.Watched || now.Sub(p.begun) < measure {
		return
	}
	p.told = true
	if text := p.farText(s, now.Sub(p.begun)); text != "" {
		p.line("%s\n", text)
	}
}

// farText is a note that a boundary is far, where it is: a stretch of a bar has taken
// so long up to a step.
func (p *Bar) farText(s berth.Step, took time.Duration) string {
	x, between, of := p.stretchOf(s), p.start.Boundary, fmt.Sprintf("%d steps take", p.start.Boundary)
	if between == 0 {
		between, of = p.start.StepsPerEpoch, fmt.Sprintf("the %d steps of an epoch take", p.start.StepsPerEpoch)
	}
	steps := max(1, (x.done-p.first)/p.run.Batch)
	whole := took * time.Duration(between) / time.Duration(steps)
	if whole <= far {
		return ""
	}
	return fmt.Sprintf("%s about %s, and losses come out after them: --watch (train.watch) shows some before,\ntrain.boundary: %d brings them out and validates more often",
		of, text.Clock(whole), nice(between, whole))
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

func (p *Bar) boundary(e berth.Boundary) {
	line := p.place(e.Step, e.Epoch)
	if e.TrainLoss != nil {
		line += "  loss " + text.Loss(*e.TrainLoss)
	}
	if e.ValLoss != nil {
		line += "  val loss " + text.Loss(*e.ValLoss) + text.RMSE("  ", e.RMSE)
	}
	if e.ValAccuracy != nil {
		line += fmt.Sprintf("  accuracy %.2f%%", 100**e.ValAccuracy)
	}
	line += text.Metrics("  ", e.Metrics.Names(), e.Metrics, map[string]*float64{"accuracy": e.ValAccuracy, "rmse": e.RMSE})
	p.line("%s  %.0f samples/s  %.2fs\n", line, e.SamplesPerS, e.Time.Seconds())
}
