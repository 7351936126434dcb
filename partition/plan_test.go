package partition

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/berth-ml/berth/engine/device"
	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/engine/ops"
	"github.com/berth-ml/berth/engine/shape"
	"github.com/berth-ml/berth/internal/golden"
)

// mustPlan plans a net.
func mustPlan(t testing.TB, s net, o PlanOptions) *Plan {
	t.Helper()
	g, err := s.build()
	if err != nil {
		t.Fatal(err)
	}
	o.Microbatches = s.microbatches
	p, err := New(g, o)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// tiedNet has a skip over a stage, a weight used in two, and clipping.
func tiedNet(microbatches int) net {
	s := chain(3, 4, 2, microbatches)
	s.blocks[2].skip, s.blocks[2].tied, s.clip, s.readLoss = 0, 0, true, true
	return s
}

func TestGoldenPlans(t *testing.T) {
	byHand := PlanOptions{Devices: specs(3, 1<<20), Stages: [][]string{{"b0"}, {"b1"}, {"b2"}}}
	p := mustPlan(t, tiedNet(2), byHand)
	golden.Check(t, "testdata/tied.txt", p.Dump())
	golden.Check(t, "testdata/tied.dot", p.DOT())
	golden.Check(t, "testdata/tied_one_microbatch.txt", mustPlan(t, tiedNet(1), byHand).Dump())
	s := chain(7, 16, 8, 4)
	s.adam, s.stats, s.dropout = true, true, true
	golden.Check(t, "testdata/chain.txt", mustPlan(t, s, PlanOptions{Devices: specs(2, 0), Count: 3}).Table())
}

// TestPlaces checks the rules of placement on the tied net.
func TestPlaces(t *testing.T) {
	p := mustPlan(t, tiedNet(2), PlanOptions{Devices: specs(3, 0), Stages: [][]string{{"b0"}, {"b1"}, {"b2"}}})
	for name, want := range map[string]int{
		"b0.weight": 0, "b0.weight/momentum": 0, "b1.weight": 1, "b1.bias/momentum": 1, "b2.bias": 2, "step": 2, "ring": 2,
	} {
		if got := p.Owner(p.Graph.Find(name)); got != want {
			t.Errorf("%s lives on stage %d, want %d", name, got, want)
		}
	}
	for _, n := range p.Graph.Nodes {
		got := p.place.node[n.ID]
		switch n.Op.Kind() {
		case "clip_factor", "learning_rate", "mse", "ring_write", "increment":
			if got != 2 {
				t.Errorf("%v is on stage %d, want 2", n, got)
			}
		case "sum_squares": // where the gradient is: one number crosses, not a tensor
			if want := p.place.node[p.idx.readers[n.In[0]][0].ID]; got != want {
				t.Errorf("%v is on stage %d, its gradient is used on %d", n, got, want)
			}
		}
		if n.Phase == graph.Backward && n.Of != nil && got != p.place.node[n.Of.ID] {
			t.Errorf("%v is on stage %d, the node it differentiates on %d", n, got, p.place.node[n.Of.ID])
		}
	}
}

func TestOneStageHasNoTransfers(t *testing.T) {
	p := mustPlan(t, tiedNet(3), PlanOptions{Devices: specs(1, 0)})
	if len(p.Transfers) != 0 || len(p.Segments) != 3 || p.Stages[0].BytesIn != 0 {
		t.Errorf("transfers %v, %d segments", p.Transfers, len(p.Segments))
	}
}

// TestTransfers checks the rates, and that the totals of the stages agree with
// the list.
func TestTransfers(t *testing.T) {
	p := mustPlan(t, tiedNet(2), PlanOptions{Devices: specs(2, 0), Stages: [][]string{{"b0"}, {"b1"}, {"b2"}}})
	rates := map[string]Rate{}
	var in, out, listed int64
	for _, tr := range p.Transfers {
		rates[fmt.Sprintf("%s %d-%d", tr.Value.Name, tr.From, tr.To)] = tr.Rate
		if tr.Local != (tr.From < 2 && tr.To < 2) {
			t.Errorf("%v is local: %v", tr, tr.Local)
		}
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
	if r, ok := rates["b0.weight 0-2"]; !ok || r != PerStep {
		t.Errorf("the tied weight moves once per %v (%v): %v", r, ok, rates)
	}
	s := tiedNet(2)
	s.blocks[0].frozen = true
	p = mustPlan(t, s, PlanOptions{Devices: specs(3, 0), Stages: [][]string{{"b0"}, {"b1"}, {"b2"}}})
	for _, tr := range p.Transfers {
		if tr.Value.Name == "b0.weight" && tr.Rate != PerRun {
			t.Errorf("the frozen weight moves once per %v", tr.Rate)
		}
	}
}

func TestDevicesAreShared(t *testing.T) {
	for _, c := range []struct {
		stages, devices int
		want            []int
	}{{3, 2, []int{0, 0, 1}}, {4, 2, []int{0, 0, 1, 1}}, {3, 3, []int{0, 1, 2}}, {2, 4, []int{0, 1}}, {5, 3, []int{0, 0, 1, 1, 2}}} {
		if got := dealDevices(c.stages, c.devices); !slices.Equal(got, c.want) {
			t.Errorf("%d stages on %d devices: %v, want %v", c.stages, c.devices, got, c.want)
		}
	}
	p := mustPlan(t, chain(3, 4, 2, 2), PlanOptions{Devices: specs(2, 0), Count: 3})
	if !strings.Contains(p.Stages[0].Cause, "shares cpu:0 with stage 1") {
		t.Error(p.Stages[0].Cause)
	}
}

func TestMoreDevicesThanBlocks(t *testing.T) {
	p := mustPlan(t, chain(2, 4, 2, 1), PlanOptions{Devices: specs(5, 0)})
	if len(p.Stages) != 2 || !strings.Contains(p.Stages[0].Cause, "5 devices but only 2 blocks") {
		t.Errorf("%d stages: %s", len(p.Stages), p.Stages[0].Cause)
	}
	if want := (Fewer{Asked: 5, Devices: true, Stages: 2, Blocks: 2}); p.Fewer == nil || *p.Fewer != want {
		t.Errorf("fewer stages: %+v, want %+v", p.Fewer, want)
	}
}

func TestByHandErrors(t *testing.T) {
	g, err := chain(3, 4, 2, 1).build()
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		stages [][]string
		want   []string
	}{
		{[][]string{{"b0", "b1", "c2"}}, []string{`"c2"`, `nearest: "b2"`, "b0, b1, b2"}},
		{[][]string{{"b0"}, {"b2"}}, []string{"no stage names b1"}},
		{[][]string{{"b0", "b1"}, {"b1", "b2"}}, []string{`"b1" is in stage 0 and again in stage 1`}},
		{[][]string{{"b0", "b1", "b2"}, {}}, []string{"stage 1 has no blocks"}},
		{[][]string{}, []string{"empty"}},
		{[][]string{{"b1", "b2"}, {"b0"}}, []string{`layer 0 (dense "b0") of stage 1`, `layer 1 (dense "b1") of stage 0`}},
	} {
		_, err := New(g, PlanOptions{Devices: specs(2, 0), Stages: c.stages})
		if !errors.Is(err, ErrStages) {
			t.Errorf("%v: %v", c.stages, err)
			continue
		}
		for _, w := range c.want {
			if !strings.Contains(err.Error(), w) {
				t.Errorf("%v: %v\nlacks %q", c.stages, err, w)
			}
		}
	}
	for _, o := range []PlanOptions{{}, {Devices: specs(1, 0), Count: -1}, {Devices: specs(1, 0), Count: 2, Stages: [][]string{{"b0"}}}} {
		if _, err := New(g, o); !errors.Is(err, ErrStages) {
			t.Errorf("%+v: %v", o, err)
		}
	}
}

func TestMemoryError(t *testing.T) {
	s := chain(3, 64, 4, 2)
	g, err := s.build()
	if err != nil {
		t.Fatal(err)
	}
	_, err = New(g, PlanOptions{Devices: specs(2, 40<<10), Microbatches: 2})
	if !errors.Is(err, ErrMemory) {
		t.Fatal(err)
	}
	for _, w := range []string{"on cpu:", "weight 3", "there are 40.0 KiB", `layer 0 (dense "b0")`, "use more devices", "set partition.recompute to block"} {
		if !strings.Contains(err.Error(), w) {
			t.Errorf("%v\nlacks %q", err, w)
		}
	}
	_, err = New(g, PlanOptions{Devices: specs(2, 40<<10), Microbatches: 2, Recompute: RecomputeBlock})
	if !errors.Is(err, ErrMemory) || strings.Contains(err.Error(), "recompute") {
		t.Errorf("%v\nadvises what is done already", err)
	}
}

// TestMemoryMovesTheCut gives the first device too little for its half.
func TestMemoryMovesTheCut(t *testing.T) {
	s := chain(4, 32, 4, 1)
	free := mustPlan(t, s, PlanOptions{Devices: specs(2, 0)})
	if got := len(free.Stages[0].Blocks); got != 2 {
		t.Fatalf("%d blocks on the first of two equal devices", got)
	}
	devices := specs(2, 0)
	devices[0].MemoryBytes = total(free.Stages[0].Memory) - 1
	tight := mustPlan(t, s, PlanOptions{Devices: devices})
	if got := len(tight.Stages[0].Blocks); got != 1 {
		t.Errorf("%d blocks on a device that is too small for 2", got)
	}
}

// TestFastDeviceGetsMore cuts by flops per second, not by flops.
func TestFastDeviceGetsMore(t *testing.T) {
	devices := specs(2, 0)
	devices[1].FlopsPerSecond = 3e9
	p := mustPlan(t, chain(8, 8, 4, 1), PlanOptions{Devices: devices})
	if got := len(p.Stages[0].Blocks); got != 2 {
		t.Errorf("%d of 8 blocks on the device with a quarter of the speed", got)
	}
}

// TestCutIsTheBest compares the search with trying every cut.
func TestCutIsTheBest(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := &search{o: PlanOptions{InFlight: func(stages, stage int) int { return stages - stage }}}
		blocks := rapid.IntRange(1, 6).Draw(t, "blocks")
		s.stages = rapid.IntRange(1, blocks).Draw(t, "stages")
		s.o.Devices = specs(rapid.IntRange(1, 3).Draw(t, "devices"), int64(rapid.IntRange(20, 80).Draw(t, "memory")))
		s.device = dealDevices(s.stages, len(s.o.Devices))
		s.allowed, s.flops, s.foot = []bool{true}, []int64{0}, map[[2]int]footprint{}
		for i := range blocks {
			s.allowed = append(s.allowed, true)
			s.flops = append(s.flops, s.flops[i]+int64(rapid.IntRange(0, 4).Draw(t, "flops")))
		}
		for lo := range blocks {
			for hi := lo + 1; hi <= blocks; hi++ {
				f := footprint{bytesIn: int64(rapid.IntRange(0, 5).Draw(t, "in")), perFlight: int64(rapid.IntRange(0, 5).Draw(t, "held"))}
				f.fixed[device.Weight] = int64(rapid.IntRange(0, 20).Draw(t, "weight"))
				s.foot[[2]int{lo, hi}] = f
			}
		}
		got, want := s.best(), bruteForce(s, []int{0})
		switch {
		case want == nil && got.time != s.leastTime():
			t.Fatalf("nothing fits: found %+v, the least time is %v", *got, s.leastTime())
		case want != nil && (got.time != want.time || got.cross != want.cross):
			t.Fatalf("found %+v, best is %+v", *got, *want)
		}
	})
}

// bruteForce tries every way to go on from some cuts, the first block of each
// stage so far.
func bruteForce(s *search, cuts []int) *label {
	if len(cuts) == s.stages {
		return judge(s, append(slices.Clone(cuts), len(s.flops)-1))
	}
	var best *label
	for next := cuts[len(cuts)-1] + 1; next < len(s.flops)-1; next++ {
		l := bruteForce(s, append(slices.Clone(cuts), next))
		if l != nil && (best == nil || l.time < best.time || l.time == best.time && l.cross < best.cross) {
			best = l
		}
	}
	return best
}

// judge adds up what a whole cut costs, nil if it does not fit.
func judge(s *search, cuts []int) *label {
	l := &label{}
	used := make([]int64, len(s.o.Devices))
	for stage := range s.stages {
		f := s.foot[[2]int{cuts[stage], cuts[stage+1]}]
		l.time = max(l.time, s.time(stage, cuts[stage], cuts[stage+1]))
		l.cross += f.bytesIn
		used[s.device[stage]] += f.perFlight*int64(s.stages-stage) + f.fixed[device.Weight]
	}
	if slices.Max(used) > s.o.Devices[0].MemoryBytes {
		return nil
	}
	return l
}

// TestFewerStagesThanAskedFor has a plan say it, and one that has enough not.
func TestFewerStagesThanAskedFor(t *testing.T) {
	for _, c := range []struct {
		blocks, count int
		want          string
	}{
		{3, 5, "5 stages asked for but only 3 blocks"},
		{1, 2, "2 stages asked for but only 1 block"},
		{3, 3, "<nil>"},
		{3, 1, "<nil>"},
	} {
		p := mustPlan(t, chain(c.blocks, 16, 8, 1), PlanOptions{Devices: specs(1, 0), Count: c.count})
		if got := fmt.Sprint(p.Fewer); got != c.want {
			t.Errorf("%d stages of %d blocks: %s, want %s", c.count, c.blocks, got, c.want)
		}
		f, err := p.Forward()
		if err != nil {
			t.Fatal(err)
		}
		if f.Fewer != p.Fewer {
			t.Errorf("the plan of the forward phase says %v, the whole plan %v", f.Fewer, p.Fewer)
		}
	}
}

// TestNoCutWhereValuesGoBack has a block whose layer is used again at the end:
// only blocks outside that loop can be cut off.
func TestNoCutWhereValuesGoBack(t *testing.T) {
	b := graph.NewBuilder("loop", 1)
	x := b.Input("input", shape.F32(2))
	for _, name := range []string{"a", "b", "a", "c"} {
		restore := b.In(&graph.Layer{Name: name, Type: "tanh", Block: name})
		x = ops.Tanh(b, x)
		restore()
	}
	b.Output("y", x)
	g, err := b.Graph()
	if err != nil {
		t.Fatal(err)
	}
	p, err := New(g, PlanOptions{Devices: specs(3, 0)})
	if err != nil {
		t.Fatal(err)
	}
	if len(p.Stages) != 2 || !slices.Equal(p.Stages[0].Blocks, []string{"a", "b"}) || !strings.Contains(p.Stages[0].Cause, "can only be cut into 2 stages") {
		t.Error(p.Table())
	}
	if _, err = New(g, PlanOptions{Devices: specs(2, 0), Stages: [][]string{{"a"}, {"b", "c"}}}); !errors.Is(err, ErrStages) {
		t.Error(err)
	}
}

// TestGraphErrors builds what cannot be planned.
func TestGraphErrors(t *testing.T) {
	for name, c := range map[string]struct {
		build func(b *graph.Builder, x, v *graph.Value)
		want  string
	}{
		"input summed":      {func(b *graph.Builder, x, v *graph.Value) { b.Output("y", b.Accumulate(x, ops.AddOp)) }, "accumulate the result of an op"},
		"assigned an input": {func(b *graph.Builder, x, v *graph.Value) { b.Assign(v, x) }, "assign the result of an op built in the Update phase"},
		"assigned twice": {func(b *graph.Builder, x, v *graph.Value) {
			defer b.InPhase(graph.Update)()
			b.Assign(v, ops.Tanh(b, v))
			b.Assign(v, ops.Exp(b, v))
		}, "assigned twice"},
		"same value twice": {func(b *graph.Builder, x, v *graph.Value) {
			defer b.InPhase(graph.Update)()
			y := ops.Tanh(b, v)
			b.Assign(v, y)
			b.Assign(b.Var("w", v.Meta, graph.Metric, graph.Init{}), y)
		}, "the same value"},
		"not summed": {func(b *graph.Builder, x, v *graph.Value) {
			y := ops.Tanh(b, x)
			defer b.InPhase(graph.Update)()
			b.Assign(v, ops.Exp(b, y))
		}, "read Builder.Accumulate of it"},
		"sum read early": {func(b *graph.Builder, x, v *graph.Value) {
			b.Output("y", ops.Exp(b, b.Accumulate(ops.Tanh(b, x), ops.AddOp)))
		}, "before it is complete"},
		"circular": {func(b *graph.Builder, x, v *graph.Value) {
			defer b.InPhase(graph.Update)()
			w := b.Var("w", v.Meta, graph.Metric, graph.Init{})
			b.Assign(v, ops.Tanh(b, w))
			b.Assign(w, ops.Tanh(b, v))
		}, "circular"},
	} {
		b := graph.NewBuilder("g", 2)
		x := b.Input("x", shape.F32(3))
		v := b.Var("v", shape.F32(3), graph.Metric, graph.Init{})
		c.build(b, x, v)
		g, err := b.Graph()
		if err != nil {
			t.Fatal(err)
		}
		if _, err = New(g, PlanOptions{Devices: specs(1, 0), Microbatches: 2}); !errors.Is(err, ErrGraph) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
}

func TestRebindRefusesAnotherGraph(t *testing.T) {
	p := mustPlan(t, chain(2, 4, 2, 2), PlanOptions{Devices: specs(1, 0)})
	for _, s := range []net{chain(3, 4, 2, 2), chain(2, 4, 2, 1)} {
		g, err := s.build()
		if err != nil {
			t.Fatal(err)
		}
		if _, err := p.Rebind(g); !errors.Is(err, ErrGraph) {
			t.Error(err)
		}
	}
}

// TestSmallLastMicrobatch runs a step of which the last microbatch is smaller,
// cut in three and whole.
func TestSmallLastMicrobatch(t *testing.T) {
	s := tiedNet(3)
	small := s
	small.batch = 1
	h, err := small.build()
	if err != nil {
		t.Fatal(err)
	}
	var results []state
	for n := 1; n <= 3; n++ {
		p := mustPlan(t, s, PlanOptions{Devices: specs(n, 0)})
		q, err := p.Rebind(h)
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

// runMixed runs a step of three microbatches, the last by q's segments.
func runMixed(p, q *Plan) (state, error) {
	vars, in := start(p.Graph, 3, 5)
	_, last := start(q.Graph, 3, 6)
	in[2] = last[2]
	k := newMachine(p, vars, in)
	for _, phase := range []graph.Phase{graph.Forward, graph.Backward} {
		for m := range 3 {
			plan := p
			if m == 2 {
				plan = q
			}
			for i := range plan.Segments {
				if s := &plan.Segments[i]; s.Phase == phase {
					if err := k.run(s, m); err != nil {
						return nil, err
					}
				}
			}
		}
	}
	return k.runPlan(0) // the updates
}

// TestActivationsFollowInFlight checks that held activations, and only those,
// are counted per microbatch in flight.
func TestActivationsFollowInFlight(t *testing.T) {
	memory := func(flight int) [device.NumUsages]int64 {
		return mustPlan(t, chain(2, 8, 4, 4), PlanOptions{Devices: specs(2, 0), InFlight: func(int, int) int { return flight }}).Stages[0].Memory
	}
	one, two, three := memory(1), memory(2), memory(3)
	for u := range one {
		d := two[u] - one[u]
		if three[u]-two[u] != d || (d > 0) != (device.Usage(u) == device.Activation) {
			t.Errorf("%v: %d, %d, %d", device.Usage(u), one[u], two[u], three[u])
		}
	}
	// Stage 0 holds what tanh gave, [4,8] of four bytes, and nothing else.
	if d := two[device.Activation] - one[device.Activation]; d != 4*8*4 {
		t.Errorf("a microbatch in flight holds %d bytes", d)
	}
	if w := one[device.Weight]; w != (64+8)*4 {
		t.Errorf("weights take %d bytes", w)
	}
}
