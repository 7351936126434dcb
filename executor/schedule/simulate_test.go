package schedule

import "testing"

// Stages on one worker do not run at the same time, and hand over without a copy.
func TestSharedWorkerIsSimulatedAsOne(t *testing.T) {
	s, err := New(Spec{Name: "1f1b", Stages: 3, Microbatches: 4, Workers: []int{0, 0, 0}})
	if err != nil {
		t.Fatal(err)
	}
	costs := s.Typical()
	costs.Copy = func(from, to Action) float64 { t.Errorf("a copy from %v to %v", from, to); return 1 }
	if line := s.Simulate(costs); line.Makespan != 3*4*3+3*0.5 || line.Bubble != 0 {
		t.Errorf("makespan %g, bubble %g", line.Makespan, line.Bubble)
	}
}

func TestCopiesTakeTime(t *testing.T) {
	s, err := New(Spec{Name: "1f1b", Stages: 2, Microbatches: 1})
	if err != nil {
		t.Fatal(err)
	}
	costs := s.Typical()
	costs.Copy = func(from, to Action) float64 {
		if from.Kind == Forward {
			return 10
		}
		return 20
	}
	if line := s.Simulate(costs); line.Makespan != 1+10+1+2+20+2+0.5 {
		t.Errorf("makespan %g", line.Makespan)
	}
}

// A worker without stages does not count as idle.
func TestWorkerWithoutStages(t *testing.T) {
	s, err := New(Spec{Name: "1f1b", Stages: 1, Microbatches: 2, Workers: []int{2}})
	if err != nil {
		t.Fatal(err)
	}
	if line := s.Simulate(s.Typical()); line.Bubble != 0 || line.Workers != 3 {
		t.Errorf("bubble %g of %d workers", line.Bubble, line.Workers)
	}
	if back, err := Parse(s.String()); err != nil || back.String() != s.String() {
		t.Error(s, err)
	}
}
