package progress

import (
	"cmp"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/schollz/progressbar/v3"

	"github.com/berth-ml/berth"
	"github.com/berth-ml/berth/cmd/trainer/internal/console"
	"github.com/berth-ml/berth/cmd/trainer/internal/phase"
	"github.com/berth-ml/berth/cmd/trainer/internal/text"
	"github.com/berth-ml/berth/internal/units"
)

// The width of the bar itself in columns, of what is around it, which is the percentage and
// room for a ^C that is typed, and of that room with the last column.
const (
	mostBar    = 16
	leastBar   = 3
	aroundBar  = 12
	behindText = 3
)

// heartbeat is the time between lines where there is no terminal.
const heartbeat = 30 * time.Second

// Run is the part of a run that its progress shows.
type Run struct {
	Name     string
	Samples  int  // of the training part
	LogEvery int  // steps between logged losses; 0: losses come at boundaries alone
	Watched  bool // losses are shown between boundaries
	MaxSteps int  // the step that ends the call; 0: the run's last
}

// Of is the part of a run that its progress shows. maxSteps is the step that ends the call, or 0.
func Of(run *berth.Run, maxSteps int) Run {
	return Run{
		Name: run.Config.Name, Samples: run.Data.Train.Samples(),
		LogEvery: run.Config.Train.LogEvery, Watched: run.Config.Train.Watch > 0, MaxSteps: maxSteps,
	}
}

// Bar shows a training: a bar on a terminal, and lines elsewhere.
type Bar struct {
	out   io.Writer
	fancy bool // a line of out can be drawn again
	run   Run
	start berth.Start
	pace  pace
	shown bool      // the line is there, with a bar or without
	loss  *float64  // the newest that came out; nil: none has
	of    string    // the stretch that loss is the mean of, if a boundary gave it
	begun time.Time // when the first step was told
	drawn time.Time
	noted bool // where losses come out
}

// New shows run on out.
func New(out io.Writer, run Run) *Bar {
	return &Bar{out: out, run: run, fancy: console.Redraws(out)}
}

// Observer tells the bar about a training.
func (p *Bar) Observer() *berth.Observer {
	return &berth.Observer{
		Started: p.started, Step: p.step, Logged: p.logged, Watched: p.watched, Boundary: p.boundary,
		Note: p.note,
	}
}

// Clear takes the bar away.
func (p *Bar) Clear() {
	if p.shown {
		fmt.Fprint(p.out, console.ClearLine(p.out))
		p.shown = false
	}
}

// line prints in place of the bar, if there is one; the next step draws it
// again.
func (p *Bar) line(format string, args ...any) {
	p.Clear()
	fmt.Fprintf(p.out, format, args...)
}

// note prints a text.
func (p *Bar) note(s string) { p.line("%s\n", s) }

func (p *Bar) started(s berth.Start) {
	p.start, p.begun = s, time.Time{}
	p.pace.begin(s, p.run.MaxSteps)
	parameters, stages := units.Thousands(s.Parameters)+" parameters", ""
	if s.Trained < s.Parameters {
		parameters = fmt.Sprintf("%s of %s trained", units.Thousands(s.Trained), parameters)
	}
	if s.Stages > 1 {
		stages = fmt.Sprintf(" on %d stages", s.Stages)
	}
	p.note(fmt.Sprintf("%s: %s%s, %s, %s an epoch", p.run.Name, parameters, stages,
		units.Count(p.run.Samples, "sample"), units.Count(s.StepsPerEpoch, "step")))
}

// counted is a number of so many, as wide as the last one.
func counted(name string, n, last int) string {
	return fmt.Sprintf("%s %*d/%d", name, len(fmt.Sprint(last)), n, last)
}

// epoch names an epoch, counted from 0.
func (p *Bar) epoch(n int) string {
	if p.start.Epochs == 0 {
		return fmt.Sprintf("epoch %d", n+1)
	}
	return counted("epoch", n+1, p.start.Epochs)
}

// step shows a step, if it is time to: on a terminal the first one, and then some in a
// second.
func (p *Bar) step(s berth.Step) {
	now := time.Now()
	p.pace.step(s, now)
	if p.begun.IsZero() {
		p.begun, p.drawn = now, now
		if p.fancy {
			p.draw(s)
		}
	}
	p.tellWhere(s, now)
	wait := now.Sub(p.drawn)
	if p.fancy && wait >= phase.Redraw {
		p.drawn = now
		p.draw(s)
	} else if !p.fancy && wait >= heartbeat {
		p.drawn = now
		fmt.Fprintln(p.out, fit(p.parts(s), console.Room(p.out)))
	}
}

// part is a text of the bar. Those of a higher rank give way first. more is what it says
// besides, of moreRank. short is its text where a number would have to go, if that is not "".
type part struct {
	text  string
	rank  int
	more  string
	short string
}

// The ranks of what is no number of a step: the epoch, and where a loss comes from.
const (
	mostRank = 6
	moreRank = 5
)

// parts say where a training stands after a step.
func (p *Bar) parts(s berth.Step) []part {
	list := []part{{text: p.epoch(s.Epoch), rank: mostRank}, {text: counted("step", s.Step, p.pace.last), short: fmt.Sprintf("%d/%d", s.Step, p.pace.last)}}
	switch {
	case p.loss != nil:
		list = append(list, part{text: "loss " + text.Loss(*p.loss), rank: 1, more: p.of})
	case p.silent() && !p.noted:
		at, _ := p.nextLoss(s)
		list = append(list, part{text: "loss at " + at, rank: moreRank})
	}
	if p.pace.known() {
		list = append(list, part{text: p.rate(p.pace.rate()), rank: 2, short: units.Rate(p.pace.rate()*p.perSample()) + "/s"})
	}
	list = append(list, part{text: "lr " + fmt.Sprintf("%.2g", s.LearningRate), rank: 4})
	if p.pace.known() {
		list = append(list, part{text: units.Clock(p.pace.left(s.Step)) + " left", rank: 3})
	}
	return list
}

// rate words samples a second, which count as tokens for a text.
func (p *Bar) rate(samples float64) string {
	what := "sample"
	if p.start.TokensPerSample > 0 {
		what = "token"
	}
	return text.Rate(samples*p.perSample(), what)
}

// perSample is how many a sample counts as in a rate.
func (p *Bar) perSample() float64 { return cmp.Or(p.start.TokensPerSample, 1) }

// fit joins as many of the parts as there is room for, in so many columns: a bar broken
// over two lines could not be drawn again in place. Short texts of the rate, and then of the
// step, too, stand where a number would have to go.
func fit(list []part, room int) string {
	for rank := mostRank; rank > 0; rank-- {
		var texts, short []string
		for _, x := range list {
			if rank >= moreRank {
				x.text += x.more
			}
			if x.rank <= rank {
				texts, short = append(texts, x.text), append(short, cmp.Or(x.short, x.text))
			}
		}
		lines := []string{strings.Join(texts, "  "), strings.Join(texts, " ")}
		if rank < moreRank {
			lines = append(lines, strings.Join(append(texts[:1:1], short[1:]...), " "), strings.Join(short, " "))
		}
		for _, line := range lines {
			if len(line) <= room {
				return line
			}
		}
	}
	return ""
}

// draw draws the text of a step, and a bar in the room that it leaves. The last step stays
// in sight while the validation runs: a full bar would take itself away.
func (p *Bar) draw(s berth.Step) {
	width := console.Width(p.out)
	line := fit(p.parts(s), width-behindText)
	p.shown = true
	room := min(mostBar, width-aroundBar-len(line))
	if room < leastBar {
		fmt.Fprint(p.out, console.ClearLine(p.out)+line)
		return
	}
	bar := progressbar.NewOptions(max(2, p.pace.last),
		progressbar.OptionSetWriter(p.out), progressbar.OptionUseANSICodes(true), progressbar.OptionSetElapsedTime(false),
		progressbar.OptionSetPredictTime(false), progressbar.OptionSetDescription(line), progressbar.OptionThrottle(phase.Redraw),
		progressbar.OptionSetWidth(room))
	bar.Set(min(s.Step, p.pace.last-1))
	bar.RenderBlank() // where Set has not drawn it: at 0%
}

func (p *Bar) logged(s berth.Step) {
	p.loss, p.of = &s.Loss, ""
	if !p.fancy && p.run.LogEvery > 0 {
		fmt.Fprintf(p.out, "step %d  loss %s\n", s.Step, text.Loss(s.Loss))
	}
}

func (p *Bar) watched(s berth.Step) { p.loss, p.of = &s.Loss, "" }

// boundary prints the outcome of the steps since the boundary before: all losses and
// metrics, and the time, the rate, the learning rate and the time left where there is room for them.
func (p *Bar) boundary(e berth.Boundary) {
	p.pace.boundary(e)
	if e.TrainLoss != nil {
		p.loss, p.of = e.TrainLoss, fmt.Sprintf(" (epoch %d)", e.Epoch+1)
		if p.start.Boundary > 0 {
			p.of = fmt.Sprintf(" (step %d)", e.Step)
		}
	}
	room := console.Room(p.out)
	lines := p.outcome(e, room)
	last := &lines[len(lines)-1]
	more := []string{units.Time(e.Time), p.rate(e.SamplesPerS), "lr " + fmt.Sprintf("%.2g", e.LearningRate)}
	if p.pace.known() && e.Step < p.pace.last {
		more = append(more, units.Clock(p.pace.left(e.Step))+" left")
	}
	for _, more := range more {
		if len(*last)+2+len(more) <= room {
			*last += "  " + more
		}
	}
	p.line("%s\n", strings.Join(lines, "\n"))
}

// outcome words a boundary, in lines of so many columns on a terminal, and in one line
// for programs.
func (p *Bar) outcome(e berth.Boundary, room int) []string {
	place := p.epoch(e.Epoch)
	if p.start.Boundary > 0 {
		place = counted("step", e.Step, p.start.Steps)
	} else if p.start.Epochs == 0 {
		place += "  " + counted("step", e.Step, p.start.Steps)
	}
	lines, indent := []string{place}, strings.Repeat(" ", len(place))
	for _, x := range outcomes(e) {
		last := &lines[len(lines)-1]
		if p.fancy && len(*last)+2+len(x) > room {
			lines = append(lines, indent)
			last = &lines[len(lines)-1]
		}
		*last += "  " + x
	}
	return lines
}

// outcomes are the losses and metrics of a boundary.
func outcomes(e berth.Boundary) (list []string) {
	if e.TrainLoss != nil {
		list = append(list, "loss "+text.Loss(*e.TrainLoss))
	}
	if e.ValLoss != nil {
		list = append(list, "val loss "+text.Loss(*e.ValLoss))
	}
	if e.RMSE != nil {
		list = append(list, text.RMSE("", e.RMSE))
	}
	if e.ValAccuracy != nil {
		list = append(list, "accuracy "+text.Share(*e.ValAccuracy))
	}
	already := map[string]*float64{"accuracy": e.ValAccuracy, "rmse": e.RMSE}
	for _, name := range e.Metrics.Names() {
		if m := text.Metrics("", []string{name}, e.Metrics, already); m != "" {
			list = append(list, m)
		}
	}
	return list
}
