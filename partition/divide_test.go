package partition

import (
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/engine/ops"
	"github.com/berth-ml/berth/engine/ops/ref"
	"github.com/berth-ml/berth/internal/stop"
	"github.com/berth-ml/berth/partition/cut"
	"github.com/berth-ml/berth/partition/divide"
	"github.com/berth-ml/berth/partition/nets"
	"github.com/berth-ml/berth/partition/nodes"
	"github.com/berth-ml/berth/partition/segment"
)

// inRanges plans a graph with all updates in ranges of so many elements; nil if there
// is nothing to cut.
func inRanges(t *rapid.T, g *graph.Graph, o PlanOptions, elems int, at segment.Grain) *Plan {
	must := func(err error) {
		if err != nil {
			t.Fatal(err)
		}
	}
	s, err := o.checked()
	must(err)
	g, err = s.Recompute.Apply(g, stop.When(nil))
	must(err)
	var d decided
	d.index, err = nodes.New(g, s.indexing(false), stop.When(nil))
	must(err)
	d.cut, err = cut.Choose(d.index, nodes.Blocks(g), s.cutting(d.index))
	must(err)
	d.place, d.shards = s.placeFor(d.index, d.cut)
	d.whole = placed{d.index, d.place}
	base := &Plan{Graph: g, Microbatches: s.Microbatches, options: s, decided: d}
	base, groups, err := base.ranged(divide.Ranges{Elems: elems})
	must(err)
	if base == nil {
		return nil
	}
	p, err := base.chooseGrain(groups, []segment.Grain{at}, false, nil)
	must(err)
	p.Stages, err = describeStages(groups, p)
	must(err)
	return p
}

// cutState gives the ranges of variables their contents.
func cutState(g *graph.Graph, whole state) state {
	cut := state{}
	for _, v := range g.Vars {
		a := whole[v.Whole().Name]
		if v.Range != nil {
			a = ref.Floats(a.F[v.Range.From:][:v.Meta.Elems()], v.Meta.Elems())
		}
		cut[v.Name] = a
	}
	return cut
}

// TestAnyRangesAreTheWholeGraph trains with updates cut into ranges, and with the
// plan for a smaller last microbatch.
func TestAnyRangesAreTheWholeGraph(t *testing.T) {
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
		o := drawOptions(t, s)
		if !s.Clip { // a norm has other bits in ranges that are not of its chunks
			o.unit = rapid.IntRange(0, 3).Draw(t, "unit")
		}
		at := rapid.SampledFrom(finer).Draw(t, "grain")
		p := inRanges(t, g, o, rapid.IntRange(0, 6).Draw(t, "elements"), at)
		if p == nil {
			return
		}
		checkPlan(t, p)
		want, in := start(g, s.Microbatches, rapid.Uint64().Draw(t, "seed"))
		got := cutState(p.Graph, want)
		for range 2 {
			if want, err = runWhole(g, want, in, p.options.Reduction); err != nil {
				t.Fatal(err)
			}
			k := newMachine(p, got, in)
			if got, err = k.runStep(StepOptions{Microbatches: s.Microbatches}); err != nil {
				t.Fatalf("%v\n%s", err, p.dump())
			}
			if d := differ(cutState(p.Graph, want), got); d != "" {
				t.Fatalf("%s\n%s", d, p.dump())
			}
			if left := k.left(); len(left) > 0 {
				t.Fatalf("never freed: %v\n%s", left, p.dump())
			}
		}
		q, err := Derive(p, h, DeriveOptions{})
		if err != nil {
			t.Fatal(err)
		}
		checkPlan(t, q)
		for i := range p.Segments {
			if a, b := &p.Segments[i], &q.Segments[i]; a.Name != b.Name || !slices.Equal(slotNames(a.Later), slotNames(b.Later)) {
				t.Fatalf("segment %s became %s:\n%s\n%s", a.Name, b.Name, p.dump(), q.dump())
			}
		}
	})
}

// updateOf is a graph with the update of a large tied weight.
func updateOf(t *testing.T, microbatches int, adam, clip bool) *graph.Graph {
	t.Helper()
	s := nets.Tied(microbatches)
	s.Width, s.Adam, s.Clip = 400, adam, clip
	g, err := s.Build()
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// TestRangesLowerTheFloor: the update of a large weight needs the weight, its gradient
// and a range of the optimizer's state, and adding two gradients needs these alone.
func TestRangesLowerTheFloor(t *testing.T) {
	const weight = 400 * 400 * 4
	for _, microbatches := range []int{1, 2} {
		for _, adam := range []bool{false, true} {
			g := updateOf(t, microbatches, adam, true)
			at := func(limit int64) (*Plan, error) {
				return New(g, PlanOptions{Devices: nets.Specs(1, limit), Microbatches: microbatches})
			}
			state := int64(ops.SumElems * 4)
			if adam {
				state *= 2
			}
			low := 2*weight + state + 4096
			p, err := at(low)
			if err != nil {
				t.Fatalf("%d microbatches, Adam %v: %v", microbatches, adam, err)
			}
			f := p.Memory[0]
			if !p.ranges.On() || f.Floor > low || f.Peak < 4*weight {
				t.Errorf("%d microbatches, Adam %v: %+v", microbatches, adam, f)
			}
			if _, err := at(f.Floor); err != nil {
				t.Errorf("at the floor: %v", err)
			}
			if text := strings.Join(p.Shortages(), " "); !strings.Contains(text, "updates of large tensors are cut into ranges of 256.0 KiB") {
				t.Error(text)
			}
			if free, err := at(0); err != nil || free.ranges.On() || free.Graph != g {
				t.Errorf("without a limit: %v, %v", free.ranges, err)
			}
		}
	}
}
