package divide_test

import (
	"math/rand/v2"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/berth-ml/berth/engine/device"
	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/engine/models"
	"github.com/berth-ml/berth/engine/ops"
	"github.com/berth-ml/berth/engine/ops/ref"
	"github.com/berth-ml/berth/engine/optim"
	"github.com/berth-ml/berth/engine/shape"
	"github.com/berth-ml/berth/internal/stop"
	"github.com/berth-ml/berth/partition/divide"
	"github.com/berth-ml/berth/partition/nets"
	"github.com/berth-ml/berth/partition/nets/passes"
	"github.com/berth-ml/berth/partition/nodes"
	"github.com/berth-ml/berth/partition/parts"
)

// piece is a range of a tensor.
type piece struct{ from, count int }

// checkCover refuses ranges that do not have each of so many elements once.
func checkCover(t passes.T, name string, pieces []piece, elems int) {
	t.Helper()
	slices.SortFunc(pieces, func(a, b piece) int { return a.from - b.from })
	end := 0
	for _, p := range pieces {
		if p.from != end || p.count <= 0 {
			t.Fatal(name, "has the ranges", pieces)
		}
		end += p.count
	}
	if end != elems {
		t.Fatal(name, "has", elems, "elements and the ranges", pieces)
	}
}

// checkDivided checks what the pass promises: the ranges of each parameter and of each variable
// of state have all of its elements once, the state of a range is read by that range alone, and
// every variable that the update assigned is assigned still.
func checkDivided(t passes.T, whole *graph.Graph, cut *graph.Graph) {
	t.Helper()
	weights, states := map[string][]piece{}, map[string][]piece{}
	idx, err := nodes.New(cut, nodes.Options{Microbatches: 1, Ranged: true}, stop.When(nil))
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range cut.Nodes {
		if op, ok := n.Op.(ops.Ranged); ok {
			weight := idx.Identity(n.In[0]).Name // a range changes it in place, behind the one before
			weights[weight] = append(weights[weight], piece{op.From, op.Count})
		}
	}
	for _, v := range cut.Vars {
		if v.Range == nil {
			continue
		}
		states[v.Whole().Name] = append(states[v.Whole().Name], piece{v.Range.From, v.Meta.Elems()})
		for _, r := range idx.Readers[v.ID] {
			if op, ok := r.Op.(ops.Ranged); !ok || op.From != v.Range.From || op.Count != v.Meta.Elems() {
				t.Fatal(r, "reads", v.Name)
			}
		}
	}
	elems := map[string]int{}
	for _, v := range whole.Vars {
		elems[v.Name] = v.Meta.Elems()
	}
	for _, of := range []map[string][]piece{weights, states} {
		for name, list := range of {
			checkCover(t, name, list, elems[name])
		}
	}
	assigned := map[string]bool{}
	for _, a := range cut.Assigns {
		assigned[a.Var.Whole().Name] = true
	}
	for _, a := range whole.Assigns {
		if !assigned[a.Var.Name] {
			t.Fatal(a.Var.Name, "is not assigned any more")
		}
	}
}

// TestRangesCoverEveryParameter cuts the updates of random graphs on one replica. Each range is
// where the whole update was.
func TestRangesCoverEveryParameter(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := nets.Draw(t)
		n.Microbatches = 1
		s := passes.Draw(t, n)
		s.Shard = false
		g := passes.Build(t, n)
		before := g.Text()
		idx, pl := s.Place(t, s.Index(t, g, 1))
		cut := divide.Updates(idx, divide.Ranges{Elems: rapid.IntRange(0, 6).Draw(t, "elements")}, divide.Shards{})
		if g.Text() != before {
			t.Fatal("the graph that was given has changed")
		}
		if cut == nil {
			return
		}
		checkDivided(t, g, cut.Graph)
		q := divide.Place(pl, cut)
		for _, x := range cut.Graph.Nodes {
			for _, v := range x.In {
				if v.Range != nil && q.Node[x.ID] != pl.Node[idx.Assigned[v.Range.Of.ID].ID] {
					t.Fatalf("%v is on stage %d, and the update of %s on another one", x, q.Node[x.ID], v.Range.Of.Name)
				}
			}
		}
		for _, v := range cut.Graph.Vars {
			if q.Owner[v.Name] != pl.Owner[v.Whole().Name] {
				t.Fatalf("%s is on stage %d, the whole on %d", v.Name, q.Owner[v.Name], pl.Owner[v.Whole().Name])
			}
		}
	})
}

// TestSmallUpdatesStayWhole: no range has more elements than asked for, an update that is no
// larger is not cut, and without ranges or shards nothing is.
func TestSmallUpdatesStayWhole(t *testing.T) {
	n := nets.Chain(1, 10, 1, 1) // a weight of 100 elements and a bias of 10
	n.Adam = true
	var s passes.Setup
	idx := s.Index(t, passes.Build(t, n), 1)
	if cut := divide.Updates(idx, divide.Ranges{}, divide.Shards{}); cut != nil {
		t.Error("no ranges cut an update")
	}
	for elems, want := range map[int]int{30: 4, 10: 10, 9: 12 + 2, 100: 0} {
		count := 0
		if cut := divide.Updates(idx, divide.Ranges{Elems: elems}, divide.Shards{}); cut != nil {
			for _, x := range cut.Graph.Nodes {
				if op, ok := x.Op.(ops.Ranged); ok {
					if count++; op.Count > elems {
						t.Errorf("ranges of %d elements: one has %d", elems, op.Count)
					}
				}
			}
		}
		if count != want {
			t.Errorf("ranges of %d elements: there are %d, want %d", elems, count, want)
		}
	}
}

// TestRangesFor: the ways to cut go from coarse to fine, end with the finest, and begin at
// chunks of a sum.
func TestRangesFor(t *testing.T) {
	for _, limit := range []int64{1, 1 << 20, 1 << 24, 1 << 28, 1 << 40} {
		list := divide.RangesFor(limit)
		for i, r := range list {
			if !r.On() || r.Elems%ops.SumElems != 0 || i > 0 && r.Elems >= list[i-1].Elems {
				t.Errorf("limit %d: %+v", limit, list)
			}
		}
		if last := list[len(list)-1]; last.Elems != ops.SumElems {
			t.Errorf("limit %d: the finest is %d elements", limit, last.Elems)
		}
	}
}

// TestLittleLeasesStayWhole: an update that needs no more than a 16th of the memory is not cut.
func TestLittleLeasesStayWhole(t *testing.T) {
	n := nets.Chain(1, 400, 1, 1)
	n.Adam, n.Microbatches = true, 1
	idx := passes.Setup{}.Index(t, passes.Build(t, n), 1)
	const lease = 4 * 400 * 400 * 4 // the weight, its gradient and two states
	for limit, want := range map[int64]bool{16 * lease: false, 16*lease - 16: true} {
		list := divide.RangesFor(limit)
		if cut := divide.Updates(idx, list[len(list)-1], divide.Shards{}); (cut != nil) != want {
			t.Errorf("limit %d: the update is cut: %v", limit, cut != nil)
		}
	}
}

// TestGradientsInParts: an update in ranges reads a gradient that is computed in parts part by part, and nothing joins these,
// neither for a sum over microbatches nor for a norm; it assigns the same numbers.
func TestGradientsInParts(t *testing.T) {
	type of struct {
		clip         float64
		microbatches int
		inputs       int
	}
	train := func(x of) *graph.Graph {
		g, err := models.Train(
			models.Spec{Input: shape.F32(x.inputs), Target: shape.I32(), Loss: "cross_entropy", Layers: models.MLP([]int{20}, "tanh", 3, graph.Pos{})},
			optim.Spec{Name: "adam", ClipNorm: x.clip, Schedule: ops.LearningRate{Schedule: "constant", Base: 0.1}},
			models.Size{Microbatch: 6, Microbatches: x.microbatches, Batch: 6 * x.microbatches, Ring: 2})
		if err != nil {
			t.Fatal(err)
		}
		return g
	}
	check := func(t passes.T, x of, limit int64, count, elems int) (joins, sums int) {
		whole := train(x)
		cut := parts.Choose(whole, limit, count, func(*graph.Node) int64 { return 0 }, stop.When(nil)).Apply(whole, stop.When(nil))
		before := cut.Text()
		d := divide.Updates(passes.Setup{}.Index(t, cut, x.microbatches), divide.Ranges{Elems: elems}, divide.Shards{})
		if d == nil {
			t.Fatal("no update is cut")
		}
		if cut.Text() != before {
			t.Fatal("the graph that was given has changed")
		}
		checkDivided(t, whole, d.Graph)
		feed := map[*graph.Value]ref.Array{}
		numbers := func(v *graph.Value) ref.Array {
			a, random := ref.New(v.Meta), rand.New(rand.NewPCG(uint64(len(v.Name)), uint64(v.Meta.Elems())))
			for k := range a.F {
				a.F[k] = random.Float64()
			}
			return a
		}
		for _, v := range append(slices.Clone(whole.Inputs), whole.Vars...) {
			feed[v] = numbers(v)
		}
		now := map[*graph.Value]ref.Array{}
		for _, v := range append(slices.Clone(d.Graph.Inputs), d.Graph.Vars...) {
			if now[v] = numbers(v.Whole()); v.Range != nil {
				now[v] = ref.Floats(now[v].F[v.Range.From:][:v.Meta.Elems()], v.Meta.Elems())
			}
		}
		want, err := ref.Eval(whole, feed)
		if err != nil {
			t.Fatal(err)
		}
		got, err := ref.Eval(d.Graph, now)
		if err != nil {
			t.Fatal(err)
		}
		assigned := map[*graph.Value]ref.Array{}
		for _, a := range whole.Assigns {
			assigned[a.Var] = want[a.New]
		}
		for _, a := range d.Graph.Assigns {
			numbers := assigned[a.Var.Whole()].F
			if a.Var.Range != nil {
				numbers = numbers[a.Var.Range.From:][:a.Var.Meta.Elems()]
			}
			if !slices.Equal(got[a.New].F, numbers) {
				t.Fatal(a.Var.Name, "becomes", got[a.New].F, "want", numbers)
			}
		}
		for _, n := range d.Graph.Nodes {
			if n.Op.Kind() == "concat" && n.Part == nil && n.Phase != graph.Update {
				joins++
			}
		}
		return joins, len(d.Graph.Accums) - len(whole.Accums)
	}
	rapid.Check(t, func(t *rapid.T) {
		limit := int64(rapid.IntRange(1, 10_000).Draw(t, "limit"))
		x := of{1e-3 * float64(rapid.IntRange(0, 1).Draw(t, "clip")), rapid.IntRange(1, 2).Draw(t, "microbatches"), 40}
		check(t, x, limit, rapid.IntRange(2, 9).Draw(t, "parts"), rapid.IntRange(1, 300).Draw(t, "elements"))
	})
	for _, x := range []of{{0, 1, 40}, {1e-3, 1, 40}, {0, 2, 40}, {1e-3, 2, 40}} {
		if joins, sums := check(t, x, 6000, 4, 100); joins != 0 || (sums > 0) != (x.microbatches > 1) {
			t.Errorf("%+v: %d gradients are joined for updates in ranges, and %d sums are of parts", x, joins, sums)
		}
	}
	// The chunks of a norm begin in the middle of a part.
	if _, sums := check(t, of{1e-3, 2, 7000}, 100_000, 4, 50); sums == 0 {
		t.Error("no sum of a large gradient is in parts")
	}
}

// TestRangesOfVariables: the ranges of a variable follow each other, in its place
// among the others, and live with it.
func TestRangesOfVariables(t *testing.T) {
	const width = 400
	n := nets.Tied(2)
	n.Width, n.Adam, n.Clip = width, true, false
	var s passes.Setup
	g := passes.Build(t, n)
	idx, pl := s.Place(t, s.Index(t, g, 2))
	cut := divide.Updates(idx, divide.Ranges{Elems: ops.SumElems}, divide.Shards{})
	q := divide.Place(pl, cut)
	var names []string
	end := 0
	for _, v := range cut.Graph.Vars {
		if v.Range == nil {
			end = 0
		} else {
			if v.Range.From != end || v.Range.From%ops.SumElems != 0 || v.Offset() != int64(4*end) || q.Owner[v.Name] != pl.Owner["b0.weight"] {
				t.Errorf("%v begins at %d", v, v.Range.From)
			}
			if end += v.Meta.Elems(); end == width*width {
				end = 0
			}
		}
		if len(names) == 0 || names[len(names)-1] != v.Whole().Name {
			names = append(names, v.Whole().Name)
		}
	}
	var want []string
	for _, v := range g.Vars {
		want = append(want, v.Name)
	}
	if !slices.Equal(names, want) {
		t.Errorf("variables %v, want %v", names, want)
	}
	ranged := s.Index(t, cut.Graph, 2)
	if v := cut.Graph.Find("b0.weight/m[131072:160000]"); v == nil || !v.Meta.Equal(shape.F32(160000-131072)) || ranged.Usage(v) != device.OptState {
		t.Errorf("the last range is %v", v)
	}
}
