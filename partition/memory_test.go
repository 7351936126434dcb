package partition

import (
	"errors"
	"strings"
	"testing"
)

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
