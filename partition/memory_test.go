package partition

import (
	"errors"
	"strings"
	"testing"

	"github.com/berth-ml/berth/engine/device"
	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/partition/nets"
	"github.com/berth-ml/berth/partition/nodes"
	"github.com/berth-ml/berth/partition/segment"
)

// TestMemoryError refuses devices below the floor, with what would lower it.
func TestMemoryError(t *testing.T) {
	plan := func(s nets.Net, again Recompute) error {
		t.Helper()
		g, err := s.Build()
		if err != nil {
			t.Fatal(err)
		}
		_, err = New(g, PlanOptions{Devices: nets.Specs(2, 40<<10), Microbatches: 2, Recompute: again})
		if !errors.Is(err, ErrMemory) {
			t.Fatal(err)
		}
		return err
	}
	wide, deep := nets.Chain(3, 64, 4, 2), nets.Chain(3, 4, 4096, 2)
	for _, x := range []struct {
		err  error
		says []string
		not  string
	}{
		{plan(wide, ""), []string{"s1.U0:b2.weight on cpu:1 needs 48.1 KiB at once", "weight 16.0 KiB", "there are 40.0 KiB", `layer 0 (dense "b0")`, "use a smaller model", "at least 49KiB"}, "microbatch"},
		{plan(deep, ""), []string{"activation", "use a smaller microbatch"}, "partition.recompute"},
		{plan(deep, RecomputeCheap), []string{"activation", "use a smaller microbatch", "set partition.recompute to block"}, "model"},
		{plan(deep, RecomputeBlock), []string{"use a smaller microbatch"}, "partition.recompute"},
	} {
		for _, w := range x.says {
			if !strings.Contains(x.err.Error(), w) {
				t.Errorf("%v\nlacks %q", x.err, w)
			}
		}
		if text := strings.TrimPrefix(x.err.Error(), ErrMemory.Error()); strings.Contains(text, x.not) {
			t.Errorf("%v\nadvises on %s", x.err, x.not)
		}
	}
}

// TestMemoryErrorTellsApart words a floor just above the limit so that the two
// numbers differ.
func TestMemoryErrorTellsApart(t *testing.T) {
	err := &MemoryError{Forecast: Forecast{Floor: 6<<20 + 100<<10, Limit: 6<<20 + 99<<10}}
	if text := err.Error(); !strings.Contains(text, "needs 6.098 MiB at once") || !strings.Contains(text, "there are 6.097 MiB") {
		t.Error(text)
	}
}

// TestFloorIsEnough plans at the floor, and refuses a byte below it.
func TestFloorIsEnough(t *testing.T) {
	g, err := nets.Chain(4, 8, 16, 3).Build()
	if err != nil {
		t.Fatal(err)
	}
	at := func(limit int64) (*Plan, error) {
		return New(g, PlanOptions{Devices: nets.Specs(1, limit), Microbatches: 3})
	}
	free, err := at(0)
	if err != nil {
		t.Fatal(err)
	}
	if f := free.Memory[0]; f.Tight() || f.Loaded+f.Spilled != 0 || f.Peak != nodes.Total(f.PeakBy) || f.Floor != nodes.Total(f.FloorBy) {
		t.Errorf("without a limit: %+v", f)
	}
	tight, err := at(free.Memory[0].Floor / 2)
	if err != nil {
		t.Fatal(err)
	}
	floor := tight.Memory[0].Floor
	if floor >= free.Memory[0].Floor || tight.grain == segment.WholePhases {
		t.Errorf("%v: the floor is %d, of whole phases %d", tight.grain, floor, free.Memory[0].Floor)
	}
	if p, err := at(floor); err != nil || p.Memory[0].Loaded == 0 {
		t.Errorf("at the floor: %v", err)
	}
	for limit := floor; ; limit-- {
		p, err := at(limit)
		if errors.Is(err, ErrMemory) {
			break
		}
		if err != nil || p.Memory[0].Floor > limit {
			t.Fatalf("limit %d: %v, %+v", limit, err, p.Memory)
		}
	}
}

// Less memory is advised where a plan then fits, and not at the least floor.
func TestFloorsAdviseLessMemory(t *testing.T) {
	g, err := nets.Chain(4, 8, 16, 3).Build()
	if err != nil {
		t.Fatal(err)
	}
	at := func(limit int64) (*Plan, error) {
		return New(g, PlanOptions{Devices: nets.Specs(1, limit), Microbatches: 3})
	}
	p, err := at(0)
	if err != nil {
		t.Fatal(err)
	}
	if p, err = at(p.Memory[0].Peak - 1); err != nil {
		t.Fatal(err)
	}
	over := errors.New("stopped")
	if _, err := p.Floors(func() error { return over }); !errors.Is(err, over) {
		t.Errorf("stopped while it planned anew: %v", err)
	}
	for first := true; ; first = false {
		next, err := at(p.Memory[0].Floor - 1)
		fits := err == nil
		lines, err := p.Floors(nil)
		if err != nil {
			t.Fatal(err)
		}
		if text := strings.Join(lines, ""); text == "" || strings.Contains(text, "give less memory") != fits {
			t.Errorf("less fits: %v, but %s", fits, text)
		}
		if !fits {
			if first {
				t.Error("the floor is the least at once")
			}
			return
		}
		p = next
	}
}

// Scratch goes with the larger part of the floor: that of a weight's gradient does not
// shrink with the microbatch.
func TestAdviceAtTheFloor(t *testing.T) {
	for _, c := range []struct {
		grad, activation, scratch int64
		want                      string
	}{{147, 12, 147, "smaller model"}, {40, 60, 100, "smaller microbatch"}, {0, 5, 90, "smaller microbatch"}, {90, 40, 0, "smaller microbatch"}} {
		f := Forecast{Floor: c.grad + c.activation + c.scratch}
		f.FloorBy[device.Grad], f.FloorBy[device.Activation], f.FloorBy[device.Scratch] = c.grad, c.activation, c.scratch
		// 1 << 1: a backward pass
		training := &Plan{Graph: new(graph.Graph), Segments: []Segment{{Passes: 1 << 1}}}
		if got := strings.Join(training.remedies(&f), ", "); !strings.Contains(got, c.want) {
			t.Errorf("%+v: %s", c, got)
		}
	}
	f := Forecast{Floor: 100}
	f.FloorBy[device.Activation] = 100
	for _, c := range []struct {
		role graph.Role
		want string
	}{{graph.Parameter, "use a smaller batch (a smaller train.batch, or a greater train.microbatches)"}, {graph.Cache, "use a shorter context (--context)"}} {
		p := &Plan{Graph: &graph.Graph{Vars: []*graph.Value{{Role: c.role}}}}
		if got := p.remedies(&f); len(got) != 1 || got[0] != c.want {
			t.Errorf("%v: %q, want %q", c.role, got, c.want)
		}
	}
}

// TestLeastMemory: the bytes that a refusal names are enough, and it names the same ones whatever little memory there is.
func TestLeastMemory(t *testing.T) {
	g, err := nets.Chain(3, 4, 4096, 2).Build()
	if err != nil {
		t.Fatal(err)
	}
	refused := func(bytes int64) *MemoryError {
		t.Helper()
		_, err := New(g, PlanOptions{Devices: nets.Specs(1, bytes), Microbatches: 2})
		e, ok := err.(*MemoryError)
		if !ok && err != nil {
			t.Fatal(err)
		}
		return e
	}
	first := refused(1 << 10)
	if first == nil {
		t.Fatal("1 KiB is enough")
	}
	e := first.Least()
	if e.least > wholeKiB(first.least) || e.Limit != 1<<10 {
		t.Errorf("%v, of %v", e, first)
	}
	if refused(e.least) != nil {
		t.Errorf("%d bytes are not enough", e.least)
	}
	for _, share := range []int64{16, 4, 2} {
		if less := refused(e.least / share * (share - 1)); less == nil || less.Least().least != e.least {
			t.Errorf("%d bytes less than %d: %v", e.least/share, e.least, less)
		}
	}
}
