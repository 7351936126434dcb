package partition

import (
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/berth-ml/berth/engine/device"
	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/engine/models"
	"github.com/berth-ml/berth/engine/ops"
	"github.com/berth-ml/berth/engine/optim"
	"github.com/berth-ml/berth/engine/shape"
	"github.com/berth-ml/berth/executor/schedule"
	"github.com/berth-ml/berth/internal/stop"
	"github.com/berth-ml/berth/internal/testall"
	"github.com/berth-ml/berth/partition/nets"
)

// TestForward: the plan of the forward phase has nothing else.
func TestForward(t *testing.T) {
	for _, microbatches := range []int{1, 3} {
		whole := mustPlan(t, nets.Tied(microbatches), PlanOptions{Devices: nets.Specs(3, 0)})
		p, err := Derive(whole, whole.Graph, DeriveOptions{For: Checked})
		if err != nil {
			t.Fatal(err)
		}
		for s := range p.Stages {
			if got := passesText(p.segmentsOf()[s]); got != "F" {
				t.Errorf("stage %d runs %s", s, got)
			}
		}
		for _, v := range p.Graph.Vars {
			if v.Role != graph.Parameter {
				t.Errorf("the forward pass has %v", v)
			}
		}
	}
}

// TestForwardOnly plans a graph without backward pass or update.
func TestForwardOnly(t *testing.T) {
	b := graph.NewBuilder("predict", 1)
	x := b.Input("x", shape.F32(2))
	for _, name := range []string{"a", "b"} {
		restore := b.In(&graph.Layer{Type: "test", Name: name, Block: name})
		x = ops.Tanh(b, x)
		restore()
	}
	b.Output("y", x)
	g, err := b.Graph()
	if err != nil {
		t.Fatal(err)
	}
	p, err := New(g, PlanOptions{Devices: nets.Specs(2, 0), Microbatches: 3})
	if err != nil {
		t.Fatal(err)
	}
	if len(p.Segments) != 2 || p.goesBack() || slices.ContainsFunc(p.Segments, func(s Segment) bool { return s.Passes.Has(schedule.Update) }) {
		t.Error(p.dump())
	}
	for _, l := range mustLaunches(t, p, StepOptions{Microbatches: 3}) {
		y := p.Instance(g.Outputs[0], l.Microbatch, false)
		if slices.ContainsFunc(l.Over, func(k int) bool { return l.Needs[k].Instance == y }) != (l.Segment.Stage == 1) {
			t.Errorf("%s ends %v", l.Name(), l.Over)
		}
	}
}

func TestSmallerRefusesAnotherGraph(t *testing.T) {
	p := mustPlan(t, nets.Chain(2, 4, 2, 2), PlanOptions{Devices: nets.Specs(1, 0)})
	for _, s := range []nets.Net{nets.Chain(3, 4, 2, 2), nets.Chain(2, 4, 2, 1)} {
		g, err := s.Build()
		if err != nil {
			t.Fatal(err)
		}
		if _, err := Derive(p, g, DeriveOptions{}); !errors.Is(err, ErrGraph) {
			t.Error(err)
		}
	}
}

// A reason in the list of refusals is New's error, and that of plans for the same stages.
func TestRefusals(t *testing.T) {
	p := mustPlan(t, nets.Chain(2, 4, 2, 2), PlanOptions{Devices: nets.Specs(1, 0)})
	no, before := errors.New("no"), refusals
	refusals = append(slices.Clone(refusals), func(q *Plan) error {
		if q.index == nil || q.place == nil || len(q.Memory) != 1 || len(q.Stages) != 1 {
			t.Errorf("a refusal is asked about an unfinished plan: %+v", q)
		}
		return no
	})
	t.Cleanup(func() { refusals = before })
	if _, err := New(p.Graph, PlanOptions{Devices: nets.Specs(1, 0), Microbatches: 2}); !errors.Is(err, no) {
		t.Errorf("New: %v", err)
	}
	for _, o := range []Purpose{Answers, Checked} {
		if _, err := Derive(p, p.Graph, DeriveOptions{For: o}); !errors.Is(err, no) {
			t.Errorf("Derive for %d: %v", o, err)
		}
	}
}

// Planning ends wherever it is told to stop: in the search, and for each stage of
// each pass behind it.
func TestPlanningStops(t *testing.T) {
	g, err := nets.Chain(8, 4, 2, 2).Build()
	if err != nil {
		t.Fatal(err)
	}
	whole := mustPlan(t, nets.Chain(8, 4, 2, 2), PlanOptions{Devices: nets.Specs(4, 0)})
	for name, c := range map[string]struct {
		plan func(stop func() error) error
		asks int
	}{
		"New": {func(stop func() error) error {
			_, err := New(g, PlanOptions{Devices: nets.Specs(4, 0), Stop: stop})
			return err
		}, 60},
		"Derive": {func(stop func() error) error { _, err := Derive(whole, g, DeriveOptions{Stop: stop}); return err }, 20},
	} {
		stopped, every := errors.New("stopped"), testall.Or(5, 1)
		asks := -every // which did not stop it in the end
		for err := stopped; err != nil; {
			asks += every
			left := asks
			err = c.plan(func() error {
				if left--; left < 0 {
					return stopped
				}
				return nil
			})
			if err != nil && !errors.Is(err, stopped) {
				t.Fatal(err)
			}
		}
		if asks <= c.asks-every {
			t.Errorf("%s asks at most %d times whether to stop, which is seldom", name, asks)
		}
	}
}

// TestPlanOutlivesItsStop asks plans in too little memory for their step after the call that
// made them was told to stop, as a run does that a signal has ended.
func TestPlanOutlivesItsStop(t *testing.T) {
	g, err := nets.Chain(8, 4, 2, 2).Build()
	if err != nil {
		t.Fatal(err)
	}
	var over error
	ask := func() error { return over }
	whole, err := New(g, PlanOptions{Devices: nets.Specs(1, 0)})
	if err != nil {
		t.Fatal(err)
	}
	p, err := New(g, PlanOptions{Devices: nets.Specs(1, whole.Memory[0].Peak*9/10), Stop: ask})
	if err != nil {
		t.Fatal(err)
	}
	if p.Memory[0].Moved() == 0 {
		t.Fatal("the plan moves nothing, and so tests nothing")
	}
	q, err := Derive(p, g, DeriveOptions{Stop: ask})
	if err != nil {
		t.Fatal(err)
	}
	over = errors.New("stopped")
	for _, p := range []*Plan{p, q} {
		if _, err := p.Predict(nil); err != nil {
			t.Error(err)
		}
	}
}

// TestPlanningIsLinear counts what planning looks at, for n and for 2n blocks.
func TestPlanningIsLinear(t *testing.T) {
	looks := func(blocks int, o PlanOptions) int {
		g, err := nets.Chain(blocks, 4, 2, o.Microbatches).Build()
		if err != nil {
			t.Fatal(err)
		}
		check := stop.When(nil)
		o.Devices = nets.Specs(2, 0)
		s, err := o.checked()
		if err != nil {
			t.Fatal(err)
		}
		if _, err := newPlan(g, s, check); err != nil {
			t.Fatal(err)
		}
		return check.Items()
	}
	byHand := func(blocks int) (stages [][]string) {
		for i := range blocks {
			if i%5 == 0 {
				stages = append(stages, nil)
			}
			stages[i/5] = append(stages[i/5], fmt.Sprintf("b%d", i))
		}
		return stages
	}
	for name, options := range map[string]func(blocks int) PlanOptions{
		"one stage":             func(int) PlanOptions { return PlanOptions{Count: 1} },
		"four stages":           func(int) PlanOptions { return PlanOptions{Count: 4} },
		"a stage per block":     func(blocks int) PlanOptions { return PlanOptions{Count: blocks} },
		"five blocks per stage": func(blocks int) PlanOptions { return PlanOptions{Stages: byHand(blocks)} },
	} {
		for _, microbatches := range []int{1, 3} {
			const n = 100
			o, twice := options(n), options(2*n)
			o.Microbatches, twice.Microbatches = microbatches, microbatches
			one, two := looks(n, o), looks(2*n, twice)
			if two > 21*one/10 || one < 50*n {
				t.Errorf("%s, %d microbatches: %d looks for %d blocks, %d for twice as many", name, microbatches, one, n, two)
			}
		}
	}
}

// TestSmallLastMicrobatch runs a step of which the last microbatch is smaller,
// cut in three and whole.
func TestSmallLastMicrobatch(t *testing.T) {
	s := nets.Tied(3)
	small := s
	small.Batch = 1
	h, err := small.Build()
	if err != nil {
		t.Fatal(err)
	}
	var results []state
	for n := 1; n <= 3; n++ {
		p := mustPlan(t, s, PlanOptions{Devices: nets.Specs(n, 0)})
		q, err := Derive(p, h, DeriveOptions{})
		if err != nil {
			t.Fatal(err)
		}
		after, err := runMixed(p, q)
		if err != nil {
			t.Fatal(err)
		}
		results = append(results, after)
	}
	for _, r := range results[1:] {
		if d := differ(results[0], r); d != "" {
			t.Error(d)
		}
	}
}

// TestAnyPartitionIsTheWholeGraph trains three steps whole and cut.
func TestAnyPartitionIsTheWholeGraph(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := nets.Draw(t)
		g, err := s.Build()
		if err != nil {
			t.Fatal(err)
		}
		p, err := New(g, drawOptions(t, s))
		if err != nil {
			t.Fatal(err)
		}
		checkPlan(t, p)
		want, in := start(g, s.Microbatches, rapid.Uint64().Draw(t, "seed"))
		got := want
		for range 3 {
			if want, err = runWhole(g, want, in, p.options.Reduction); err != nil {
				t.Fatal(err)
			}
			k := newMachine(p, got, in)
			if got, err = k.runStep(StepOptions{Microbatches: s.Microbatches}); err != nil {
				t.Fatalf("%v\n%s", err, p.dump())
			}
			if d := differ(want, got); d != "" {
				t.Fatalf("%s\n%s", d, p.dump())
			}
			if left := k.left(); len(left) > 0 {
				t.Fatalf("never freed: %v\n%s", left, p.dump())
			}
		}
	})
}

// TestSamePlanTwice builds everything twice.
func TestSamePlanTwice(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := nets.Draw(t)
		o := drawOptions(t, s)
		var text [2]string
		for i := range text {
			g, err := s.Build()
			if err != nil {
				t.Fatal(err)
			}
			p, err := New(g, o)
			if err != nil {
				t.Fatal(err)
			}
			text[i] = p.dump() + p.DOT()
		}
		if text[0] != text[1] {
			t.Fatalf("two plans of one graph:\n%s\n%s", text[0], text[1])
		}
	})
}

// TestSmaller runs a step whose last microbatch is smaller: every segment of
// the other graph must fit between those of the first.
func TestSmaller(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := nets.Draw(t)
		small := s
		small.Batch = 1
		g, err := s.Build()
		if err != nil {
			t.Fatal(err)
		}
		h, err := small.Build()
		if err != nil {
			t.Fatal(err)
		}
		p, err := New(g, drawOptions(t, s))
		if err != nil {
			t.Fatal(err)
		}
		q, err := Derive(p, h, DeriveOptions{})
		if err != nil {
			t.Fatal(err)
		}
		checkPlan(t, q)
		if len(p.Segments) != len(q.Segments) {
			t.Fatalf("%d segments became %d", len(p.Segments), len(q.Segments))
		}
		for i := range p.Segments {
			a, b := &p.Segments[i], &q.Segments[i]
			if a.Name != b.Name || !slices.Equal(slotNames(a.Later), slotNames(b.Later)) || !slices.Equal(slotNames(a.First), slotNames(b.First)) {
				t.Fatalf("segment %s became %s:\n%s\n%s", a.Name, b.Name, p.dump(), q.dump())
			}
		}
	})
}

// Devices estimate a smaller microbatch only where memory is short.
func TestSmallerEstimatesWhereMemoryIsShort(t *testing.T) {
	s := nets.Chain(2, 4, 2, 2)
	small := s
	small.Batch = 1
	h, err := small.Build()
	if err != nil {
		t.Fatal(err)
	}
	estimates := 0
	estimate := func(int, *graph.Graph, device.CompileOptions) (m device.Memory, _ error) {
		estimates++
		return m, nil
	}
	peak := mustPlan(t, s, PlanOptions{Devices: nets.Specs(1, 0), Estimate: estimate}).Memory[0].Peak
	for limit, want := range map[int64]bool{0: false, peak: false, peak - 1: true} {
		p := mustPlan(t, s, PlanOptions{Devices: nets.Specs(1, limit), Estimate: estimate})
		estimates = 0
		q, err := Derive(p, h, DeriveOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if got := estimates > 0; got != want {
			t.Errorf("limit %d of %d: %d estimates", limit, peak, estimates)
		}
		if q.options.Estimate == nil {
			t.Error("the plan forgot how to estimate")
		}
	}
}

// TestModels cuts a small GPT with a tied head, and a convolutional net, in
// every number of stages: the step must give the bits of the whole graph.
func TestModels(t *testing.T) {
	gpt := models.Spec{
		Input: shape.I32(4), Target: shape.I32(4), Loss: "cross_entropy", Seed: 3,
		Layers: models.GPT(models.GPTOptions{Vocab: 7, Context: 4, Layers: 2, Heads: 2, Width: 8, Dropout: 0.1}, graph.Pos{}),
	}
	cnn := models.Spec{
		Input: shape.F32(1, 6, 6), Target: shape.I32(), Loss: "cross_entropy", Seed: 3,
		Layers: append(models.Stack{models.Named{Name: "norm", Layer: models.BatchNorm{Momentum: 0.1, Eps: 1e-5}}}, models.CNN([]int{3}, 3, []int{5}, "relu", 7, graph.Pos{})...),
	}
	o := optim.Spec{Name: "adamw", Keys: optim.Adam{Betas: [2]float64{0.9, 0.99}, Eps: 1e-8, Decay: optim.Decay{WeightDecay: 0.1}}, ClipNorm: 1, Schedule: ops.LearningRate{Schedule: "constant", Base: 0.01}}
	for name, spec := range map[string]models.Spec{"gpt": gpt, "cnn": cnn} {
		g, err := models.Train(spec, o, models.Size{Microbatch: 2, Microbatches: 3, Batch: 6, Ring: 4})
		if err != nil {
			t.Fatal(err)
		}
		vars, in := start(g, 3, 11)
		want, err := runWhole(g, vars, in, ReduceOrder)
		if err != nil {
			t.Fatal(err)
		}
		for i := range 12 {
			n, again := 1+i/3, []Recompute{RecomputeNone, RecomputeCheap, RecomputeBlock}[i%3]
			t.Run(fmt.Sprintf("%s/%d/%s", name, n, again), func(t *testing.T) {
				p, err := New(g, PlanOptions{Devices: nets.Specs(n, 0), Microbatches: 3, Recompute: again})
				if err != nil {
					t.Fatal(err)
				}
				got, err := newMachine(p, vars, in).runStep(StepOptions{Microbatches: 3})
				if err != nil {
					t.Fatalf("%v\n%s", err, p.dump())
				}
				if d := differ(want, got); d != "" {
					t.Error(d)
				}
			})
		}
	}
}

// A replica takes about as much work and memory to plan among many as among few: a plan has
// no number for each pair of replicas.
func TestPlanningReplicasIsLinear(t *testing.T) {
	bytesOf := func(replicas int) float64 {
		g, err := nets.Chain(6, 4, 2, replicas).Build()
		if err != nil {
			t.Fatal(err)
		}
		o := PlanOptions{Devices: nets.Specs(replicas, 0), Microbatches: replicas, LastMicrobatches: replicas - 1, Replicas: replicas, Reduction: ReduceTree}
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		p, err := New(g, o)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := p.Predict(nil); err != nil {
			t.Fatal(err)
		}
		runtime.ReadMemStats(&after)
		return float64(after.TotalAlloc-before.TotalAlloc) / float64(replicas)
	}
	if few, many := bytesOf(16), bytesOf(256); many > 1.6*few {
		t.Errorf("a replica of 256 takes %.0f bytes to plan, one of 16 %.0f", many, few)
	}
}

// TestStagesSumTransfers: the bytes into and out of stages are those of the list of transfers.
func TestStagesSumTransfers(t *testing.T) {
	p := mustPlan(t, nets.Tied(2), PlanOptions{Devices: nets.Specs(2, 0), Stages: [][]string{{"b0"}, {"b1"}, {"b2"}}})
	var in, out, listed int64
	for _, tr := range p.Transfers {
		if tr.Rate == PerMicrobatch {
			listed += tr.Bytes
		}
	}
	for _, s := range p.Stages {
		in, out = in+s.BytesIn, out+s.BytesOut
	}
	if in != listed || out != listed || listed == 0 {
		t.Errorf("in %d, out %d, listed %d", in, out, listed)
	}
	s := nets.Chain(3, 4, 2, 2)
	s.Blocks[2].Skip = 1
	if x := mustPlan(t, s, PlanOptions{Devices: nets.Specs(2, 0), Stages: [][]string{{"b0", "b1"}, {"b2"}}}).Stages[0]; x.BytesIn != x.BytesOut {
		t.Errorf("%d bytes come back for %d", x.BytesIn, x.BytesOut)
	}
	if x := mustPlan(t, nets.Tied(3), PlanOptions{Devices: nets.Specs(1, 0)}).Stages[0]; x.BytesIn != 0 || x.BytesOut != 0 {
		t.Errorf("one stage: %d bytes in, %d out", x.BytesIn, x.BytesOut)
	}
}

func TestNoBlocks(t *testing.T) {
	b := graph.NewBuilder("bare", 1)
	b.Output("y", ops.Tanh(b, b.Input("x", shape.F32(2))))
	g, err := b.Graph()
	if err != nil {
		t.Fatal(err)
	}
	p, err := New(g, PlanOptions{Devices: nets.Specs(3, 0)})
	if err != nil {
		t.Fatal(err)
	}
	if len(p.Stages) != 1 || len(p.Segments) != 1 || !strings.Contains(p.Table(0), "no layers to cut at") {
		t.Error(p.Table(0))
	}
	if _, err := New(g, PlanOptions{Devices: nets.Specs(1, 0), Stages: [][]string{{"head"}}}); !errors.Is(err, ErrStages) {
		t.Error(err)
	}
	if _, err := New(g, PlanOptions{Devices: nets.Specs(1, 1)}); !errors.Is(err, ErrMemory) || !strings.Contains(err.Error(), "has no layers") {
		t.Error(err)
	}
}
