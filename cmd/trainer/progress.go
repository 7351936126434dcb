package main

import (
	"fmt"
	"io"
	"time"

	"github.com/schollz/progressbar/v3"
	"golang.org/x/term"

	"github.com/berth-ml/berth"
)

// redraw is how often the bar is drawn: slower than a terminal flickers.
const redraw = 200 * time.Millisecond

// heartbeat is how often a line tells that an epoch goes on, where there is no
// terminal.
const heartbeat = 15 * time.Second

// barWidth is how many columns the bar itself takes.
const barWidth = 16

// progress shows a run: a bar per epoch on a terminal, lines otherwise.
type progress struct {
	out   io.Writer
	fancy bool
	run   *berth.Run
	start berth.Start
	bar   *progressbar.ProgressBar // of the epoch under way; nil until it is first drawn
	epoch int                      // of the bar
	loss  string                   // the newest that left the device
	begun time.Time                // when this epoch's first step was seen
	first int                      // samples of this epoch before that: more than 0 after a resume
	drawn time.Time
}

func newProgress(out io.Writer, run *berth.Run) *progress {
	return &progress{out: out, run: run, fancy: terminal(out) != nil, epoch: -1, loss: "  loss –"}
}

func (p *progress) observer() *berth.Observer {
	return &berth.Observer{
		Started: p.started, Step: p.step, Logged: p.logged, Epoch: p.epochEnd,
		Note: func(text string) { p.line("%s\n", text) },
	}
}

func (p *progress) started(s berth.Start) {
	p.start = s
	stages := ""
	if n := len(p.run.Plan.Stages); n > 1 {
		stages = fmt.Sprintf(" on %d stages", n)
	}
	samples, steps := p.run.Data.Train.Len(), s.StepsPerEpoch
	p.line("%s: %s parameters%s, %s %s, %s %s an epoch\n", p.run.Config.Name,
		counted(s.Parameters), stages, counted(int64(samples)), plural(samples, "sample"), counted(int64(steps)), plural(steps, "step"))
}

// line prints in place of whatever bar there is; the next step draws it again.
func (p *progress) line(format string, args ...any) {
	p.finish()
	fmt.Fprintf(p.out, format, args...)
}

// step moves the bar on, if it is time to draw it. Where there is no terminal,
// a line now and then tells that a long epoch goes on.
func (p *progress) step(s berth.Step) {
	total := p.run.Data.Train.Len()
	done := min(s.InEpoch*p.run.Config.Train.Batch, total)
	now := time.Now()
	if s.Epoch != p.epoch {
		p.epoch, p.begun, p.drawn, p.first = s.Epoch, now, now, done
	}
	if wait := now.Sub(p.drawn); wait < redraw || !p.fancy && wait < heartbeat {
		return
	}
	p.drawn = now
	rate := float64(done-p.first) / now.Sub(p.begun).Seconds()
	left := time.Duration(float64(total-done) / max(rate, 1e-9) * float64(time.Second))
	epoch := fmt.Sprintf("epoch %d/%d", s.Epoch+1, p.start.Epochs)
	ahead, speed := fmt.Sprintf("  %s left", clockText(left)), fmt.Sprintf("  %.0f samples/s", rate)
	if !p.fancy {
		fmt.Fprintf(p.out, "%s  step %d of %d%s%s\n", epoch, s.InEpoch, p.start.StepsPerEpoch, ahead, speed)
		return
	}
	if p.bar == nil {
		p.bar = newBar(p.out, total)
	}
	text := p.fit(epoch, p.loss, ahead, speed)
	// The last step stays in sight while the epoch is evaluated: a full bar
	// would take itself away. Describing draws, and so comes last.
	p.bar.Set(min(done, total-1))
	p.bar.Describe(text)
}

// fit joins as many of the texts as leave room for a bar on the terminal's
// line: one that is broken over two lines could not be drawn again in place.
func (p *progress) fit(texts ...string) string {
	const bar = barWidth + 10 // and the percentage, and a ^C
	room := 80
	if f := terminal(p.out); f != nil {
		if width, _, err := term.GetSize(int(f.Fd())); err == nil {
			room = width
		}
	}
	text := ""
	for _, t := range texts {
		if len(text)+len(t) > room-bar {
			break
		}
		text += t
	}
	return text
}

// newBar is a bar over an epoch's samples; rate and time left stand in its text.
func newBar(out io.Writer, total int) *progressbar.ProgressBar {
	return progressbar.NewOptions(max(2, total),
		progressbar.OptionSetWriter(out), progressbar.OptionUseANSICodes(true), progressbar.OptionSetElapsedTime(false),
		progressbar.OptionSetPredictTime(false), progressbar.OptionSetWidth(barWidth))
}

// clockText is a duration as 0:07 or 1:02:03.
func clockText(d time.Duration) string {
	s := int(min(d, 1000*time.Hour).Round(time.Second).Seconds())
	if s < 3600 {
		return fmt.Sprintf("%d:%02d", s/60, s%60)
	}
	return fmt.Sprintf("%d:%02d:%02d", s/3600, s/60%60, s%60)
}

func (p *progress) logged(s berth.Step) {
	p.loss = "  loss " + lossText(s.Loss)
	if !p.fancy && p.run.Config.Train.LogEvery > 0 {
		fmt.Fprintf(p.out, "step %d  loss %s\n", s.Step, lossText(s.Loss))
	}
}

func (p *progress) epochEnd(e berth.Epoch) {
	text := fmt.Sprintf("epoch %*d/%d", len(fmt.Sprint(p.start.Epochs)), e.Epoch+1, p.start.Epochs)
	if e.TrainLoss != nil {
		text += "  loss " + lossText(*e.TrainLoss)
	}
	if e.ValLoss != nil {
		text += "  val loss " + lossText(*e.ValLoss) + rmseText("  ", p.run.RMSE(e.ValLoss))
	}
	if e.ValAccuracy != nil {
		text += fmt.Sprintf("  accuracy %.2f%%", 100**e.ValAccuracy)
	}
	p.line("%s  %.0f samples/s  %.2fs\n", text, e.SamplesPerS, e.Time.Seconds())
}

// finish takes the bar away.
func (p *progress) finish() {
	if p.bar != nil {
		p.bar.Clear()
		p.bar = nil
	}
}

// counted writes a number with commas: 535,818.
func counted(n int64) string {
	s := fmt.Sprint(n)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}
