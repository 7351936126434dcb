package partition

import (
	"os"
	"runtime/debug"
	"testing"

	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/partition/nets"
)

// TestMain spends less time on garbage: tests make many plans, all small.
func TestMain(m *testing.M) {
	debug.SetGCPercent(400)
	os.Exit(m.Run())
}

// mustPlan plans a net.
func mustPlan(t testing.TB, s nets.Net, o PlanOptions) *Plan {
	t.Helper()
	o.Microbatches = s.Microbatches
	return mustCut(t, mustGraph(t, s.Build), o)
}

func mustBuild(t testing.TB, s nets.Net) *graph.Graph {
	t.Helper()
	return mustGraph(t, s.Build)
}

func mustLaunches(t *testing.T, p *Plan, o StepOptions) []Launch {
	t.Helper()
	ls, err := p.Launches(o)
	if err != nil {
		t.Fatal(err)
	}
	return ls
}

// mustCut plans a graph.
func mustCut(t testing.TB, g *graph.Graph, o PlanOptions) *Plan {
	t.Helper()
	p, err := New(g, o)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// mustGraph makes a graph.
func mustGraph(t testing.TB, build func() (*graph.Graph, error)) *graph.Graph {
	t.Helper()
	g, err := build()
	if err != nil {
		t.Fatal(err)
	}
	return g
}
