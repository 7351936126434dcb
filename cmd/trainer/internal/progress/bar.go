package progress

import (
	"fmt"
	"io"
	"time"

	"github.com/schollz/progressbar/v3"

	"github.com/berth-ml/berth"
	"github.com/berth-ml/berth/cmd/trainer/internal/console"
	"github.com/berth-ml/berth/cmd/trainer/internal/text"
)

// barWidth is the width of the bar itself in columns.
const barWidth = 16

// Run is the part of a run that its progress shows.
type Run struct {
	Name     string
	Samples  int // of the training part
	Batch    int // samples in a full step
	LogEvery int // steps between logged losses; 0: losses come at epoch ends alone
	RMSE     func(loss *float64) *float64
}

// Bar shows a training: a bar per epoch on a terminal, lines elsewhere.
type Bar struct {
	out   io.Writer
	fancy bool // out is a terminal
	run   Run
	start berth.Start
	bar   *progressbar.ProgressBar // of the current epoch; nil until it is first drawn
	epoch int                      // of the bar
	loss  string                   // the newest loss read from the device
	begun time.Time                // when this epoch's first step was seen
	first int                      // samples of this epoch done by then: more than one batch after a resume
	drawn time.Time
}

// New shows run on out.
func New(out io.Writer, run Run) *Bar {
	return &Bar{out: out, run: run, fancy: console.Terminal(out) != nil, epoch: -1, loss: "  loss –"}
}

// Observer tells the bar about a training.
func (p *Bar) Observer() *berth.Observer {
	return &berth.Observer{
		Started: p.started, Step: p.step, Logged: p.logged, Epoch: p.epochEnd,
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
	p.start, p.epoch = s, -1
	stages := ""
	if s.Stages > 1 {
		stages = fmt.Sprintf(" on %d stages", s.Stages)
	}
	p.line("%s: %s parameters%s, %s %s, %s %s an epoch\n", p.run.Name, text.Commas(s.Parameters), stages,
		text.Commas(int64(p.run.Samples)), text.Plural(p.run.Samples, "sample"),
		text.Commas(int64(s.StepsPerEpoch)), text.Plural(s.StepsPerEpoch, "step"))
}

// step moves the bar on, if it is time to draw it. Without a terminal, a line
// now and then says how far a long epoch is.
func (p *Bar) step(s berth.Step) {
	done, now := min(s.InEpoch*p.run.Batch, p.run.Samples), time.Now()
	if s.Epoch != p.epoch {
		p.epoch, p.begun, p.drawn, p.first = s.Epoch, now, now, done
	}
	if wait := now.Sub(p.drawn); wait < redraw || !p.fancy && wait < heartbeat {
		return
	}
	p.drawn = now
	rate := float64(done-p.first) / now.Sub(p.begun).Seconds()
	left := time.Duration(float64(p.run.Samples-done) / max(rate, 1e-9) * float64(time.Second))
	epoch := fmt.Sprintf("epoch %d/%d", s.Epoch+1, p.start.Epochs)
	ahead, speed := fmt.Sprintf("  %s left", text.Clock(left)), fmt.Sprintf("  %.0f samples/s", rate)
	if !p.fancy {
		fmt.Fprintf(p.out, "%s  step %d of %d%s%s\n", epoch, s.InEpoch, p.start.StepsPerEpoch, ahead, speed)
		return
	}
	p.draw(done, p.fit(epoch, p.loss, ahead, speed))
}

// draw draws the bar with its text.
func (p *Bar) draw(done int, text string) {
	if p.bar == nil {
		p.bar = newBar(p.out, p.run.Samples)
	}
	// The last step stays in sight while the epoch is evaluated: a full bar
	// would take itself away. Describing draws, and so comes last.
	p.bar.Set(min(done, p.run.Samples-1))
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

// newBar is a bar over an epoch's samples; rate and time left are in its text.
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

func (p *Bar) epochEnd(e berth.Epoch) {
	line := fmt.Sprintf("epoch %*d/%d", len(fmt.Sprint(p.start.Epochs)), e.Epoch+1, p.start.Epochs)
	if e.TrainLoss != nil {
		line += "  loss " + text.Loss(*e.TrainLoss)
	}
	if e.ValLoss != nil {
		line += "  val loss " + text.Loss(*e.ValLoss) + text.RMSE("  ", p.run.RMSE(e.ValLoss))
	}
	if e.ValAccuracy != nil {
		line += fmt.Sprintf("  accuracy %.2f%%", 100**e.ValAccuracy)
	}
	p.line("%s  %.0f samples/s  %.2fs\n", line, e.SamplesPerS, e.Time.Seconds())
}
