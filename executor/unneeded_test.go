package executor_test

import (
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/engine/models"
	"github.com/berth-ml/berth/engine/ops"
	"github.com/berth-ml/berth/engine/shape"
	"github.com/berth-ml/berth/executor"
	"github.com/berth-ml/berth/residency"
)

// tallied is how often tally was computed.
var tallied atomic.Int64

// tally copies its input, and counts.
type tally struct{}

func (tally) Kind() string { return "tally_test" }

func (tally) Infer(in []shape.Meta) ([]shape.Meta, error) { return in, nil }

func (tally) Grad(b *graph.Builder, _ *graph.Node, dy []*graph.Value) []*graph.Value {
	return b.Apply(tally{}, dy[0])
}

func (tally) Cost(in, out []shape.Meta) graph.Cost { return ops.CostPerElement(1, in, out) }

func (tally) Compute(in, out []graph.Tensor) error {
	tallied.Add(1)
	copy(out[0].F, in[0].F)
	return nil
}

func init() { ops.Register(1, tally{}) }

// A brief layer has a loop of up to 4 iterations that ends after 2, and in each a condition
// that is never true. It reads its weight before and behind the tally.
type brief struct{}

func (brief) Build(m *models.Builder, x *graph.Value) *graph.Value {
	n := x.Meta.Shape.Dim(-1)
	w := m.Param("weight", []int{n, n}, graph.Init{Kind: graph.Uniform, A: 1})
	list := func(vs ...*graph.Value) []*graph.Value { return vs }
	count := func(b *graph.Builder, x *graph.Value) *graph.Value {
		return ops.Tanh(b, m.MatMul(b.One(tally{}, ops.Tanh(b, m.MatMul(x, w, true))), w, false))
	}
	return ops.While(m.Builder, 4, list(x, ops.Const(m.Builder, shape.F32(), 0)),
		func(b *graph.Builder, c []*graph.Value) *graph.Value {
			return ops.Less(b, c[1], ops.Const(b, shape.F32(), 2))
		},
		func(b *graph.Builder, c []*graph.Value) []*graph.Value {
			y := count(b, c[0])
			never := ops.Less(b, ops.Sum(b, ops.Square(b, y), false), ops.Const(b, shape.F32(), -1))
			z := ops.Cond(b, never, func(b *graph.Builder) []*graph.Value { return list(count(b, ops.Log(b, ops.Sub(b, y, y)))) },
				func(*graph.Builder) []*graph.Value { return list(y) })
			return list(z[0], ops.AddConst(b, c[1], 1))
		})[0]
}

func briefJob(microbatches int) job {
	j := loopJob(microbatches)
	j.spec.Layers = models.Stack{
		models.Named{Name: "wte", Layer: models.Embedding{Vocab: 7, Width: 5}}, models.Named{Name: "brief", Layer: brief{}},
		models.Named{Name: "mean", Layer: models.Mean{Axes: []int{0}}}, models.Named{Name: "out", Layer: models.Dense{Units: 7}},
	}
	return j
}

// A loop that ends after 2 iterations computes 2 of 4, forward and backward, and no branch
// that is not chosen: in one segment, in several, and op by op.
func TestLoopsEndEarly(t *testing.T) {
	for _, c := range []struct {
		microbatches, devices int
		alone                 bool
	}{{1, 1, false}, {3, 1, false}, {2, 2, false}, {1, 1, true}, {2, 1, true}} {
		t.Run(fmt.Sprintf("%+v", c), func(t *testing.T) {
			j := briefJob(c.microbatches)
			j.alone = c.alone
			r := mustRig(t, j, "cpu", c.devices, "1f1b", residency.ManagerOptions{})
			tallied.Store(0)
			step(t, r, r.prog, 1, j.batch())
			if err := r.prog.Drain(short(t)); err != nil {
				t.Fatal(err)
			}
			if got, want := tallied.Load(), int64(c.microbatches*2*2); got != want {
				t.Errorf("%d computed, want %d: two a microbatch, forward and backward", got, want)
			}
		})
	}
}

// Who logs the results of ops reads that one was skipped, by which number, and not what was in its memory.
func TestSkippedOpsAreLogged(t *testing.T) {
	j := briefJob(1)
	j.alone = true
	r := mustRig(t, j, "cpu", 1, "1f1b", residency.ManagerOptions{})
	r.rt.ReadResults()
	ran, skipped := 0, 0
	r.rt.OnLaunch(func(x executor.Launched) {
		if x.Call == nil || x.Call.Node == nil || x.Call.Node.Op != graph.Op(tally{}) {
			return
		}
		if slices.ContainsFunc(x.Results, func(s string) bool { return strings.Contains(s, "skipped") }) {
			skipped++
			for _, s := range x.Results {
				if _, guard, _ := strings.Cut(s, "in this step: "); !strings.HasPrefix(guard, "brief.") || !strings.HasSuffix(guard, " did not choose it") {
					t.Errorf("no guard is named: %s", s)
				}
			}
		} else {
			ran++
		}
	})
	step(t, r, r.prog, 1, j.batch())
	if err := r.prog.Drain(short(t)); err != nil {
		t.Fatal(err)
	}
	if ran != 4 || skipped != 4*4-4 {
		t.Errorf("%d ran and %d were skipped", ran, skipped)
	}
}
