package schedule

import (
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/berth-ml/berth/internal/golden"
)

func TestGolden(t *testing.T) {
	for _, name := range Names() {
		var b strings.Builder
		for _, c := range [][2]int{{1, 1}, {1, 3}, {2, 1}, {2, 4}, {3, 2}, {3, 4}, {4, 8}} {
			s, err := New(name, c[0], c[1])
			if err != nil {
				t.Fatal(err)
			}
			fmt.Fprintf(&b, "%v%v\n", s, s.Simulate(TypicalCost))
		}
		golden.Check(t, "testdata/"+name+".txt", b.String())
	}
}

// A grid takes memory in proportion to its length, however long its rows are.
func TestLongGrid(t *testing.T) {
	s := oneFOneB(1, 20000)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	text := s.String()
	runtime.ReadMemStats(&after)
	if got := after.TotalAlloc - before.TotalAlloc; got > 100*uint64(len(text)) {
		t.Errorf("%d bytes are allocated for a grid of %d", got, len(text))
	}
}

func TestParseErrors(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"", "first line"},
		{"schedule x stages two microbatches 1\n", "stages"},
		{"schedule x stages 1 microbatches -1\n", "microbatches"},
		{"schedule x stages 2 microbatches 1\n0: 0F0", "1 rows for 2 stages"},
		{"schedule x stages 1 microbatches 1\n1: 0F0", "begin it with"},
		{"schedule x stages 1 microbatches 1\n0: 0F0 0Z0", "line 2"},
	} {
		if _, err := Parse(c.text); !errors.Is(err, ErrSyntax) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q: %v", c.text, err)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add(oneFOneB(3, 4).String())
	f.Add("schedule x stages 1 microbatches 999999999\n0: 5F1 0U 0B0")
	f.Fuzz(func(t *testing.T, text string) {
		s, err := Parse(text)
		if err != nil {
			return
		}
		_ = s.Validate()
		back, err := Parse(s.String())
		if err != nil || back.String() != s.String() {
			t.Fatalf("%q: %v", s.String(), err)
		}
	})
}
