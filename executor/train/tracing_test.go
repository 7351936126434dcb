package train_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"reflect"
	"testing"
	"time"

	"github.com/berth-ml/berth"
	"github.com/berth-ml/berth/internal/runtest"
)

const tracedConfig = `
data: {source: digits}
model: {layers: [flatten, {type: dense, name: a, units: 64, activation: relu}, {type: dense, name: b, units: 64, activation: relu}, {type: dense, name: c, units: 10}]}
train: {steps: 40, boundary: 20, batch: 64, microbatches: 4, reduction: tree}
optimizer: {name: adamw, lr: 0.01}
devices: {use: cpu:2}
partition: {stages: 2}
`

// answer is what a call of TraceStep gives.
type answer struct {
	trace *berth.StepTrace
	err   error
}

// ask asks for a step in a goroutine of its own, and returns once that is asked for: a further call is refused then. Those
// further calls ask, too, for an instant, in which that goroutine is refused and has to try again.
func ask(t *testing.T, ctx context.Context, r *berth.Run) <-chan answer {
	t.Helper()
	got := make(chan answer, 1)
	go func() {
		x, err := r.TraceStep(ctx)
		for errors.Is(err, berth.ErrInUse) {
			x, err = r.TraceStep(ctx)
		}
		got <- answer{x, err}
	}()
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	for end := time.Now().Add(30 * time.Second); ; time.Sleep(time.Millisecond) {
		if _, err := r.TraceStep(ended); errors.Is(err, berth.ErrInUse) {
			return got
		} else if !errors.Is(err, context.Canceled) || time.Now().After(end) {
			t.Fatal(err)
		}
	}
}

// A step that somebody asks for is traced, and no other: it has the launches of the plan, its copies and kernels, and changes
// no bit of the weights.
func TestTraceStep(t *testing.T) {
	r := runtest.Open(t, tracedConfig)
	want := runtest.Train(t, r, berth.TrainOptions{Dir: t.TempDir()})
	if _, err := r.TraceStep(t.Context()); !errors.Is(err, berth.ErrNoStep) {
		t.Errorf("without a training: %v", err)
	}
	tr, err := r.Start(t.Context(), berth.TrainOptions{Dir: t.TempDir(), AssertResident: true})
	if err != nil {
		t.Fatal(err)
	}
	defer tr.Close()
	step := func(n int) {
		t.Helper()
		for range n {
			if err := tr.Step(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
	}
	allocated := func() float64 { // the least of some steps: a busy machine adds to others
		least := math.Inf(1)
		for range 4 {
			least = min(least, testing.AllocsPerRun(1, func() { step(1) }))
		}
		return least
	}
	step(3)
	before := allocated()
	for range 2 {
		first := tr.Steps()
		got := ask(t, t.Context(), r)
		step(2) // the end of a step is waited for once the next one is queued
		x := <-got
		if x.err != nil {
			t.Fatal(x.err)
		}
		if x.trace.Step != first+1 || x.trace.Schedule == "" || x.trace.Partial || x.trace.LeftOut != 0 {
			t.Errorf("step %d of %q, partial is %v, %d left out; asked after step %d", x.trace.Step, x.trace.Schedule, x.trace.Partial, x.trace.LeftOut, first)
		}
		checkTrace(t, x.trace)
	}
	left, leave := context.WithCancel(t.Context())
	first, gone := tr.Steps(), ask(t, left, r)
	step(1)
	leave()
	if x := <-gone; !errors.Is(x.err, context.Canceled) {
		t.Errorf("who left while the step was traced hears %v", x.err)
	}
	got := ask(t, t.Context(), r)
	step(3)
	if x := <-got; x.err != nil || x.trace.Step != first+3 {
		t.Errorf("who asked after that: %+v, asked after step %d", x, first+1)
	} else {
		checkTrace(t, x.trace)
	}
	if after := allocated(); after > before && runtest.Slowdown == 1 {
		t.Errorf("%v allocations a step, and %v before a step was traced", after, before)
	}
	for tr.More() {
		step(1)
	}
	rep, err := tr.Finish(t.Context())
	if err != nil || rep.WeightsSHA256 != want.WeightsSHA256 {
		t.Errorf("the weights are others: %v", err)
	}
}

// checkTrace checks that a trace is that of a step of tracedConfig.
func checkTrace(t *testing.T, x *berth.StepTrace) {
	t.Helper()
	text, err := json.Marshal(x)
	if err != nil {
		t.Fatal(err)
	}
	var back berth.StepTrace
	if err := json.Unmarshal(text, &back); err != nil || !reflect.DeepEqual(*x, back) {
		t.Errorf("as JSON it is another one: %v", err)
	}
	launches := func(of berth.StepTimeline) map[string]bool {
		list := map[string]bool{}
		for _, s := range of.Spans {
			if s.Kind == "launch" && !s.Other {
				list[fmt.Sprint(of.Lanes[s.Lane], s.Name, s.Passes)] = true
			}
		}
		return list
	}
	if m, p := launches(x.Measured), launches(x.Predicted); len(m) < 10 || !reflect.DeepEqual(m, p) {
		t.Errorf("launches %v, predicted %v", m, p)
	}
	for name, of := range map[string]berth.StepTimeline{"measured": x.Measured, "predicted": x.Predicted} {
		var worked, first, last time.Duration
		kinds, bytes := map[string]int{}, int64(0)
		first = of.End
		for _, s := range of.Spans {
			kinds[s.Kind]++
			if s.Kind == "peer" && !s.Other {
				bytes += s.Bytes
			}
			if s.Kind == "launch" && !s.Other {
				worked += s.Time - s.Waited
				first, last = min(first, s.Start), max(last, s.Start+s.Time)
			}
		}
		if whole := 2 * (of.End - min(of.Begin, 0)); first != 0 || last != of.End || of.Begin >= of.End || worked <= 0 || worked > whole {
			t.Errorf("%s: launches work for %v from %v to %v; the step is from %v to %v on two devices", name, worked, first, last, of.Begin, of.End)
		}
		if of.Bubble < 0 || of.Bubble >= 1 || kinds["peer"] == 0 || bytes == 0 {
			t.Errorf("%s: bubble %v, %v, %d bytes between devices", name, of.Bubble, kinds, bytes)
		}
		if name == "measured" && (kinds["kernel"] < kinds["launch"] || kinds["copy-in"] == 0 || of.Hidden+of.Exposed <= 0) {
			t.Errorf("measured: %v, copies hidden for %v, and not for %v", kinds, of.Hidden, of.Exposed)
		}
	}
}

// Who asks for a step hears of the end of a training that takes none, and of that of his own patience; others may ask then.
func TestTraceStepEnds(t *testing.T) {
	r := runtest.Open(t, tracedConfig)
	tr, err := r.Start(t.Context(), berth.TrainOptions{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	defer tr.Close()
	patience, cancel := context.WithCancelCause(t.Context())
	got, enough := ask(t, patience, r), errors.New("enough")
	cancel(enough)
	if x := <-got; !errors.Is(x.err, enough) {
		t.Errorf("after its patience: %v", x.err)
	}
	got = ask(t, t.Context(), r)
	if err := tr.Close(); err != nil {
		t.Fatal(err)
	}
	if x := <-got; !errors.Is(x.err, berth.ErrNoStep) {
		t.Errorf("after the training: %v", x.err)
	}
	for name, end := range map[string]func(stop func()){ // after the step in which somebody asks, and in that which is traced
		"stopped": func(stop func()) { stop() },
		"failed":  func(func()) {},
	} {
		t.Run(name, func(t *testing.T) {
			ctx, stop := context.WithCancel(t.Context())
			defer stop()
			var x <-chan answer
			func() {
				defer func() { _ = recover() }()
				_, err := r.Train(ctx, berth.TrainOptions{Dir: t.TempDir(), Observer: &berth.Observer{Step: func(s berth.Step) {
					if s.Step == 3 {
						x = ask(t, t.Context(), r)
						end(stop)
					} else if s.Step == 4 {
						panic(enough)
					}
				}}})
				if !errors.Is(err, berth.ErrStopped) {
					t.Errorf("the training: %v", err)
				}
			}()
			if got := <-x; !errors.Is(got.err, berth.ErrNoStep) {
				t.Errorf("who asked hears %v", got.err)
			}
		})
	}
}
