package progress

import (
	"bytes"
	"encoding/json"
	"io"
	"math"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/berth-ml/berth"
)

// started is a bar of a run of 20 epochs of 125 steps, with steps of so many samples that
// take so long.
func started(out io.Writer, o berth.Start, each time.Duration, steps int) (p *Bar, last berth.Step) {
	p = New(out, Run{Name: "r", Samples: 8000})
	o.Epochs, o.StepsPerEpoch, o.Steps = 20, 125, 2500
	p.started(o)
	now := time.Now()
	for step := 1; step <= steps+2; step++ { // two are queued before the first ends
		last = berth.Step{Step: step, Epoch: (step - 1) / 125, InEpoch: (step-1)%125 + 1, Samples: 64, LearningRate: 0.001}
		p.pace.step(last, now)
		if step > 1 {
			now = now.Add(each)
		}
	}
	p.begun = now.Add(-time.Duration(steps) * each)
	return p, last
}

// A note says once where the losses are, and how to have more of them where a boundary is
// far.
func TestTellWhere(t *testing.T) {
	for _, c := range []struct {
		boundary, steps int
		each            time.Duration
		want            string
	}{
		{0, 10, 100 * time.Millisecond, "loss at the epoch's end; --watch shows it now\n"},
		{0, 10, 400 * time.Millisecond, "loss at the epoch's end; --watch shows it now\nan epoch takes about 0:50; train.boundary: 20 brings losses about every 10 s\n"},
		{250, 20, 100 * time.Millisecond, "loss at step 250; --watch shows it now\n250 steps take about 0:25; train.boundary: 100 brings losses about every 10 s\n"},
		{2000, 10, 100 * time.Millisecond, "loss at step 2000; --watch shows it now\n2,000 steps take about 3:20; train.boundary: 100 brings losses about every 10 s\n"},
		{5000, 10, 100 * time.Millisecond, "loss at step 2500; --watch shows it now\n"},
		{0, 2, 100 * time.Millisecond, ""},
	} {
		var out bytes.Buffer
		p, last := started(&out, berth.Start{Boundary: c.boundary}, c.each, c.steps)
		out.Reset()
		now := p.begun.Add(time.Duration(c.steps) * c.each)
		p.tellWhere(last, now)
		p.tellWhere(last, now)
		if got := out.String(); got != c.want {
			t.Errorf("%+v: %q", c, got)
		}
		for line := range strings.Lines(out.String()) {
			if len(line) > 80 {
				t.Errorf("%d columns: %s", len(line), line)
			}
		}
	}
}

// The text of a bar has all that fits: the epoch gives way first, the step never. Words go
// before a number does.
func TestFit(t *testing.T) {
	p, last := started(io.Discard, berth.Start{}, 20*time.Millisecond, 100)
	loss := 1.23456
	if got, want := fit(p.parts(last), 200), "epoch  1/20  step  102/2500  loss at the epoch's end  3,200 samples/s  lr 0.001  0:48 left"; got != want {
		t.Errorf("before the first loss: %q, want %q", got, want)
	}
	if got, want := fit(p.parts(last), 57), "step  102/2500  3,200 samples/s  lr 0.001  0:48 left"; got != want {
		t.Errorf("before the first loss, 57 columns: %q, want %q", got, want)
	}
	p.noted = true
	if got, want := fit(p.parts(last), 200), "epoch  1/20  step  102/2500  3,200 samples/s  lr 0.001  0:48 left"; got != want {
		t.Errorf("once a line has said where losses are: %q, want %q", got, want)
	}
	p.watched(berth.Step{Loss: loss})
	for room, want := range map[int]string{
		200: "epoch  1/20  step  102/2500  loss 1.2346  3,200 samples/s  lr 0.001  0:48 left",
		66:  "step  102/2500  loss 1.2346  3,200 samples/s  lr 0.001  0:48 left",
		62:  "step  102/2500 loss 1.2346 3,200 samples/s lr 0.001 0:48 left",
		57:  "step  102/2500 loss 1.2346 3,200/s lr 0.001 0:48 left",
		50:  "102/2500 loss 1.2346 3,200/s lr 0.001 0:48 left",
		45:  "step  102/2500 loss 1.2346 3,200/s 0:48 left",
		30:  "102/2500 loss 1.2346 3,200/s",
		20:  "102/2500 loss 1.2346",
		5:   "",
	} {
		if got := fit(p.parts(last), room); got != want {
			t.Errorf("%d columns: %q, want %q", room, got, want)
		}
	}
	p.out = io.Discard
	for boundary, want := range map[int]string{0: "  loss 1.2346 (epoch 1)  ", 125: "  loss 1.2346 (step 125)  "} {
		p.start.Boundary = boundary
		p.boundary(berth.Boundary{Step: 125, TrainLoss: &loss})
		if got := fit(p.parts(last), 200); !strings.Contains(got, want) {
			t.Errorf("behind a boundary: %q, want %q in it", got, want)
		}
	}
	p.logged(berth.Step{Loss: loss})
	if got := fit(p.parts(last), 200); !strings.Contains(got, "  loss 1.2346  ") {
		t.Errorf("a logged loss: %q", got)
	}
	p.start.TokensPerSample = 64
	if got := fit(p.parts(last), 200); !strings.Contains(got, "  204,800 tokens/s  ") {
		t.Errorf("a text: %s", got)
	}
}

// The bar gives way before a text does, and what a loss is the mean of before the rate, the
// learning rate and the time left.
func TestBarGivesWay(t *testing.T) {
	var out bytes.Buffer // of 80 columns
	p, last := started(&out, berth.Start{}, 20*time.Millisecond, 100)
	loss := 1.23456
	for of, want := range map[string]string{
		"":                "epoch  1/20 step  102/2500 loss 1.2346 3,200 samples/s lr 0.001 0:48 left",
		" (epoch 1)":      "step  102/2500  loss 1.2346 (epoch 1)  3,200 samples/s  lr 0.001  0:48 left",
		" (epoch 123456)": "step  102/2500 loss 1.2346 (epoch 123456) 3,200 samples/s lr 0.001 0:48 left",
	} {
		p.loss, p.of = &loss, of
		out.Reset()
		if p.draw(last); out.String() != want || !p.shown {
			t.Errorf("%q: %q, want %q", of, out.String(), want)
		}
	}
	p.of = " (epoch 1)"
	if got, want := fit(p.parts(last), 66), "step  102/2500  loss 1.2346  3,200 samples/s  lr 0.001  0:48 left"; got != want {
		t.Errorf("66 columns: %q, want %q", got, want)
	}
	p.pace.took = 0 // the rate is not known yet: there is room
	out.Reset()
	if p.draw(last); !strings.Contains(out.String(), "loss 1.2346 (epoch 1)  lr 0.001   4% |") {
		t.Errorf("no bar where there is room: %q", out.String())
	}
}

// In a pipe a line comes every half minute and at boundaries, a look prints none, and no
// line that a terminal would draw again is there.
func TestPiped(t *testing.T) {
	var out bytes.Buffer
	p, last := started(&out, berth.Start{}, 20*time.Millisecond, 100)
	out.Reset()
	p.noted, p.drawn, p.pace.told = true, time.Now(), time.Now()
	loss, accuracy := 2.5, 0.625
	for i := range 3 {
		p.watched(berth.Step{Step: last.Step, Loss: loss})
		if i == 1 {
			p.drawn = p.drawn.Add(-heartbeat)
		}
		last.Step++
		p.step(last)
	}
	p.boundary(berth.Boundary{Step: 125, TrainLoss: &loss, ValLoss: &loss, ValAccuracy: &accuracy, SamplesPerS: 3200, Time: 1514 * time.Millisecond, LearningRate: 0.002})
	want := regexp.MustCompile(`^epoch  1/20  step  104/2500  loss 2\.5000  [0-9,]+ samples/s  lr 0\.001  [0-9:]+ left
epoch  1/20  loss 2\.5000  val loss 2\.5000  accuracy 62\.50%  1\.51 s  3,200 samples/s  lr 0\.002  [0-9:]+ left
$`)
	if !want.MatchString(out.String()) {
		t.Errorf("%q", out.String())
	}
}

// Metrics that a terminal's line has no room for begin another under them.
func TestOutcomeWraps(t *testing.T) {
	p, _ := started(io.Discard, berth.Start{}, time.Second, 1)
	p.fancy = true
	e := berth.Boundary{Metrics: map[string]float64{"a": 1, "b": 20860.4, "c": math.NaN()}}
	for width, want := range map[int]string{
		80: "epoch  1/20  a 1  b 20,860  c -",
		25: "epoch  1/20  a 1\n             b 20,860\n             c -",
	} {
		if got := strings.Join(p.outcome(e, width), "\n"); got != want {
			t.Errorf("%d columns: %q, want %q", width, got, want)
		}
	}
}

// Steps are measured from one to the next, the time at a boundary apart from them.
func TestPace(t *testing.T) {
	var p pace
	p.begin(berth.Start{Steps: 40, StepsPerEpoch: 10}, 0)
	now := time.Now()
	for step := 1; step <= 20; step++ {
		p.step(berth.Step{Step: step, Samples: 32}, now)
		if step%10 != 1 {
			now = now.Add(100 * time.Millisecond)
		}
		if step%10 == 0 {
			p.boundary(berth.Boundary{})
			now = now.Add(2 * time.Second)
		}
	}
	p.step(berth.Step{Step: 21, Samples: 32}, now)
	if got := p.rate(); math.Abs(got-320) > 1 {
		t.Errorf("%v samples a second", got)
	}
	if got := p.left(21); got < 5900*time.Millisecond || got > 6200*time.Millisecond { // 19 steps, and the ends of two epochs
		t.Errorf("%v left", got)
	}
	var short pace // a boundary after each step
	short.begin(berth.Start{Steps: 4, StepsPerEpoch: 1}, 0)
	for step := 1; step <= 2; step++ {
		short.step(berth.Step{Step: step, Samples: 32}, now)
		short.boundary(berth.Boundary{SamplesPerS: 320, Time: 100 * time.Millisecond})
	}
	if got := short.rate(); !short.known() || math.Abs(got-320) > 1 || short.each() != 100*time.Millisecond {
		t.Errorf("a boundary after each step: %v samples a second", got)
	}
	p.begin(berth.Start{Steps: 40, StepsPerEpoch: 10}, 30)
	if p.known() || p.last != 30 {
		t.Errorf("begun again: %+v", p)
	}
}

// Each line is an object with its event, and warnings and losses are among them.
func TestLines(t *testing.T) {
	var out bytes.Buffer
	l := NewLines(&out, Run{Name: "r", LogEvery: 1})
	o, loss := l.Observer(), 0.5
	o.Started(berth.Start{Steps: 9})
	o.Step(berth.Step{Step: 1, Loss: math.NaN()})
	l.told = l.told.Add(time.Hour) // however slow this test is, the next step comes within a second
	o.Step(berth.Step{Step: 2, Loss: math.NaN()})
	o.Watched(berth.Step{Step: 1, Loss: 2})
	o.Logged(berth.Step{Step: 2, Loss: 1})
	o.Boundary(berth.Boundary{Step: 3, ValLoss: &loss})
	o.Saved(berth.Saved{Step: 3, ID: 1})
	o.Warn("w")
	o.Note("n")
	l.End(&berth.Report{Steps: 3, Losses: []float64{1, 2, 3}}, "dir")
	var events []string
	for line := range strings.Lines(out.String()) {
		var x struct{ Event string }
		if err := json.Unmarshal([]byte(line), &x); err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		events = append(events, x.Event)
	}
	if got := strings.Join(events, " "); got != "start step watch log boundary saved warning note end" {
		t.Error(got)
	}
}
