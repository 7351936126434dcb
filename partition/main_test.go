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
	g, err := s.Build()
	if err != nil {
		t.Fatal(err)
	}
	o.Microbatches = s.Microbatches
	p, err := New(g, o)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func mustBuild(t *testing.T, s nets.Net) *graph.Graph {
	t.Helper()
	g, err := s.Build()
	if err != nil {
		t.Fatal(err)
	}
	return g
}

func mustLaunches(t *testing.T, p *Plan, o StepOptions) []Launch {
	t.Helper()
	ls, err := p.Launches(o)
	if err != nil {
		t.Fatal(err)
	}
	return ls
}
