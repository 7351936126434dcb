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

// A part of a grid says which columns it has.
func TestPartsOfAGrid(t *testing.T) {
	s := named("1f1b", 2, 8)
	for _, c := range []struct{ got, want string }{
		{s.Begin(10), "schedule 1f1b stages 2 microbatches 8\n0: 0F0 0F1 .   0B0\n1: .   1F0 1B0 1F1\n(columns 1 to 4 of 19)\n"},
		{s.Begin(100), s.String()},
		{s.Around(Action{Stage: 1, Kind: Backward, Microbatch: 7}, 4), "schedule 1f1b stages 2 microbatches 8\n0: 0F7   0B6   .     0B7\n1: 1B6   1F7   [1B7] 1U\n(columns 15 to 18 of 19)\n"},
		{s.Around(Action{Kind: Forward}, 100), s.Grid(Action{Kind: Forward})},
	} {
		if c.got != c.want {
			t.Errorf("got\n%swant\n%s", c.got, c.want)
		}
	}
}

// A grid takes memory in proportion to its length, however long its rows are.
func TestLongGrid(t *testing.T) {
	s := named("1f1b", 1, 4096)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	text := s.String()
	runtime.ReadMemStats(&after)
	if got := after.TotalAlloc - before.TotalAlloc; got > 150*uint64(len(text)) {
		t.Errorf("%d bytes are allocated for a grid of %d", got, len(text))
	}
}
