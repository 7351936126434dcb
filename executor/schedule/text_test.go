package schedule

import (
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/berth-ml/berth/internal/golden"
)

// named makes a schedule whose stages have a worker each.
func named(name string, stages, microbatches int) Schedule {
	s, err := New(Spec{Name: name, Stages: stages, Microbatches: microbatches})
	if err != nil {
		panic(err)
	}
	return s
}

func TestGolden(t *testing.T) {
	for _, name := range Names() {
		var b strings.Builder
		for _, c := range [][2]int{{1, 1}, {1, 3}, {2, 1}, {2, 4}, {3, 2}, {3, 4}, {4, 8}} {
			s, err := New(Spec{Name: name, Stages: c[0], Microbatches: c[1]})
			if err != nil {
				t.Fatal(err)
			}
			fmt.Fprintf(&b, "%v%v\n", s, s.Simulate(s.Typical()))
		}
		golden.Check(t, "testdata/"+name+".txt", b.String())
	}
}

// TestGoldenShared has two workers, with neighbouring stages and in rounds.
func TestGoldenShared(t *testing.T) {
	var b strings.Builder
	for _, workers := range [][]int{{0, 0, 1, 1}, {0, 1, 0, 1}} {
		for _, name := range []string{"gpipe", "1f1b", "interleaved", "zb-h1"} {
			for _, m := range []int{3, 4} {
				s, err := New(Spec{Name: name, Stages: 4, Microbatches: m, Workers: workers})
				if err != nil {
					t.Fatal(err)
				}
				fmt.Fprintf(&b, "%v%v\n", s, s.Simulate(s.Typical()))
			}
		}
	}
	golden.Check(t, "testdata/shared.txt", b.String())
}

// A grid takes memory in proportion to its length, however long its rows are.
func TestLongGrid(t *testing.T) {
	s := named("1f1b", 1, 20000)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	text := s.String()
	runtime.ReadMemStats(&after)
	if got := after.TotalAlloc - before.TotalAlloc; got > 100*uint64(len(text)) {
		t.Errorf("%d bytes are allocated for a grid of %d", got, len(text))
	}
}
