package main

import (
	"fmt"
	"io"
	"os"
	"time"

	"github.com/schollz/progressbar/v3"
	"golang.org/x/term"

	"github.com/berth-ml/berth"
)

// progress shows a run: a bar per epoch on a terminal, lines otherwise.
type progress struct {
	out    io.Writer
	fancy  bool
	bar    *progressbar.ProgressBar
	start  berth.Start
	epoch  int
	loss   string
	run    *berth.Run
	latest time.Time
}

func newProgress(out io.Writer, run *berth.Run) *progress {
	f, ok := out.(*os.File)
	return &progress{out: out, run: run, fancy: ok && term.IsTerminal(int(f.Fd())), epoch: -1}
}

func (p *progress) observer() *berth.Observer {
	return &berth.Observer{
		Started: p.started, Step: p.step, Logged: p.logged, Epoch: p.epochEnd,
		Note: func(text string) { p.line("%s\n", text) },
	}
}

func (p *progress) started(s berth.Start) {
	p.start = s
	c := p.run.Config
	p.line("%s: %d parameters on %d stages, %d training samples, %d steps an epoch\n",
		c.Name, s.Parameters, len(p.run.Plan.Stages), p.run.Data.Train.Len(), s.StepsPerEpoch)
}

// line prints below whatever bar there is.
func (p *progress) line(format string, args ...any) {
	if p.bar != nil {
		p.bar.Clear()
	}
	fmt.Fprintf(p.out, format, args...)
}

func (p *progress) step(s berth.Step) {
	if !p.fancy {
		return
	}
	if s.Epoch != p.epoch {
		p.epoch = s.Epoch
		p.bar = progressbar.NewOptions(p.start.StepsPerEpoch,
			progressbar.OptionSetWriter(p.out), progressbar.OptionShowIts(), progressbar.OptionSetItsString("steps"),
			progressbar.OptionThrottle(100*time.Millisecond), progressbar.OptionSetPredictTime(true),
			progressbar.OptionFullWidth(), progressbar.OptionClearOnFinish())
	}
	p.bar.Describe(fmt.Sprintf("epoch %d/%d%s", s.Epoch+1, p.start.Epochs, p.loss))
	p.bar.Set(s.InEpoch)
}

func (p *progress) logged(s berth.Step) {
	p.loss = fmt.Sprintf(" loss %.4f", s.Loss)
	if !p.fancy && p.run.Config.Train.LogEvery > 0 {
		fmt.Fprintf(p.out, "step %d  loss %.4f\n", s.Step, s.Loss)
	}
}

func (p *progress) epochEnd(e berth.Epoch) {
	text := fmt.Sprintf("epoch %*d/%d", len(fmt.Sprint(p.start.Epochs)), e.Epoch+1, p.start.Epochs)
	for _, v := range []struct {
		name   string
		value  *float64
		format string
		scale  float64
	}{
		{"loss", e.TrainLoss, "%.4f", 1}, {"val loss", e.ValLoss, "%.4f", 1},
		{"val accuracy", e.ValAccuracy, "%.2f%%", 100},
	} {
		if v.value != nil {
			text += fmt.Sprintf("  %s "+v.format, v.name, v.scale**v.value)
		}
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
