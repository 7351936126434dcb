package fuse

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/engine/ops"
	"github.com/berth-ml/berth/engine/shape"
	"github.com/berth-ml/berth/internal/stop"
)

// deep is a residual model of that many layers with its gradients and updates
// in place. mask goes to every layer, and each layer's sum is looked at in the
// end only.
func deep(t *testing.T, layers int) (g *graph.Graph, alias []int) {
	b := graph.NewBuilder("deep", 1)
	var weights, ends []*graph.Value
	x := b.Input("x", shape.F32(8, 4))
	mask := ops.Tanh(b, x)
	for i := range layers {
		w := b.Input(fmt.Sprint("w", i), shape.F32(4, 4))
		weights = append(weights, w)
		x = ops.Add(b, x, ops.Mul(b, ops.Tanh(b, ops.MatMulOf(b, x, w, false, false)), mask))
		ends = append(ends, x)
	}
	loss := ops.Sum(b, ops.ReshapeTo(b, x, 32), false, 0)
	seed := b.One(ops.Fill{Meta: loss.Meta, Value: 1})
	grads := b.Gradients(loss, seed, weights, ops.AddOp)
	b.Output("loss", b.One(ops.CheckFinite{}, loss))
	alias = []int{-1}
	for i, w := range weights {
		b.Output(fmt.Sprint("new", i), ops.Sub(b, w, grads[w][0]))
		alias = append(alias, i+1)
	}
	for i, v := range ends {
		b.Output(fmt.Sprint("end", i), ops.Exp(b, v))
		alias = append(alias, -1)
	}
	g, err := b.Graph()
	if err != nil {
		t.Fatal(err)
	}
	return g, alias
}

// Fusing four times as many layers takes four times the looks, and a little.
func TestWorkGrowsWithDepth(t *testing.T) {
	looks := func(layers int) (looks, kernels int) {
		g, alias := deep(t, layers)
		cuts := Cut(g, alias)
		cuts.Edges() // looks at refused edges once more
		return cuts.cutter.looks, cuts.Kernels()
	}
	once, kernels := looks(100)
	more, moreKernels := looks(400)
	if more > 5*once {
		t.Errorf("%d looks at 100 layers, %d at 400", once, more)
	}
	if moreKernels < 3*kernels || moreKernels > 5*kernels {
		t.Errorf("%d kernels at 100 layers, %d at 400", kernels, moreKernels)
	}
}

// plainDetour is detour without ranks and numbers.
func plainDetour(a, b *group) *graph.Node {
	seen := map[*group]bool{}
	var reaches func(g *group) bool
	reaches = func(g *group) bool {
		if g == a || g == b {
			return true
		}
		if seen[g] {
			return false
		}
		seen[g] = true
		for r := range g.next {
			if reaches(r) {
				return true
			}
		}
		return false
	}
	for _, g := range []*group{a, b} {
		for _, it := range g.items {
			for _, r := range it.after {
				if r.group != a && r.group != b && reaches(r.group) {
					return r.node
				}
			}
		}
	}
	return nil
}

// randomCutter is a cutter over nodes with random edges, most of them short.
func randomCutter(rng *rand.Rand) *cutter {
	c := &cutter{stop: stop.When(nil)}
	n := 2 + rng.IntN(60)
	for i := range n {
		it := &item{node: &graph.Node{ID: i}, at: i}
		it.group = &group{first: i, items: []*item{it}}
		c.items = append(c.items, it)
	}
	place := rng.Perm(n) // edges go up in this, and not in position
	if rng.IntN(2) == 0 {
		for i := range place {
			place[i] = i
		}
	}
	for range n + rng.IntN(2*n) {
		i, j := rng.IntN(n), rng.IntN(n)
		if rng.IntN(3) > 0 {
			j = min(n-1, i+1+rng.IntN(3))
		}
		if i, j = min(i, j), max(i, j); i < j {
			first := c.items[place[i]]
			second := c.items[place[j]]
			first.after, second.before = append(first.after, second), append(second.before, first)
		}
	}
	c.number()
	c.rank()
	return c
}

// Detours are those that a plain search finds, however groups were merged
// before; and ranks go up.
func TestDetoursAreThePlainOnes(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 1))
	for range 300 {
		c := randomCutter(rng)
		for range 3 * len(c.items) {
			a, b := c.items[rng.IntN(len(c.items))].group, c.items[rng.IntN(len(c.items))].group
			if near := c.items[rng.IntN(len(c.items))]; rng.IntN(3) > 0 && len(near.after) > 0 {
				a, b = near.group, near.after[0].group
			}
			if a == b {
				continue
			}
			got, want := c.detour(a, b), plainDetour(a, b)
			if got != want {
				t.Fatalf("detour %v, the plain search finds %v", got, want)
			}
			if want == nil && rng.IntN(2) == 0 {
				c.merge(a, b)
				checkRanks(t, c)
			}
		}
	}
}

func checkRanks(t *testing.T, c *cutter) {
	t.Helper()
	for _, g := range c.groups() {
		for r := range g.next {
			if r.rank <= g.rank {
				t.Fatalf("rank %d of group %d is not below %d of group %d, which comes after", g.rank, g.first, r.rank, r.first)
			}
		}
	}
}

// Nodes that would run after themselves, because donated memory is read too late,
// are fused as by a plain search. Planning reports the donation later.
func TestRanksOfCycles(t *testing.T) {
	b := graph.NewBuilder("cycle", 1)
	w := b.Input("w", shape.F32(4))
	v := ops.Tanh(b, w)
	b.Output("new", v)
	b.Output("late", ops.Mul(b, w, ops.Exp(b, v)))
	g, err := b.Graph()
	if err != nil {
		t.Fatal(err)
	}
	c := Cut(g, []int{0, -1})
	if !c.cutter.cyclic {
		t.Error("the cycle was not noticed")
	}
	if n := c.Kernels(); n == 0 || n > 3 {
		t.Errorf("%d kernels", n)
	}
}
