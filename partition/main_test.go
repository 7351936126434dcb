package partition

import (
	"os"
	"runtime/debug"
	"testing"
)

// TestMain spends less time on garbage: tests make many plans, all small.
func TestMain(m *testing.M) {
	debug.SetGCPercent(400)
	os.Exit(m.Run())
}

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
