package simulate

import (
	"math"
	"testing"

	"pgregory.net/rapid"

	"github.com/berth-ml/berth/engine/device"
)

// Launches that want all cores take turns; one that wants some goes on slower on what is left.
func TestLaunchesShareCores(t *testing.T) {
	c := &cores{count: 4}
	for i, x := range []struct{ from, seconds, need, end float64 }{
		{0, 10, 4, 10},  // takes all
		{2, 3, 4, 13},   // waits for it
		{20, 10, 3, 30}, // leaves one
		{20, 2, 2, 24},  // which is half of what this one wants
		{24, 3, 1, 27},  // beside it
		{27, 8, 9, 37.25},
	} {
		if end := c.run(x.from, x.seconds, x.need); math.Abs(end-x.end) > 1e-9 {
			t.Errorf("launch %d ends at %v, want %v", i, end, x.end)
		}
	}
	if end := (turn{}).run(1, 2); end != 3 {
		t.Errorf("a device with processors of its own ends at %v, want 3", end)
	}
}

// A copy takes what cores are idle, and the rest from the launches of all cores; the next launch makes up for it.
func TestCopiesTakeCores(t *testing.T) {
	c := &cores{count: 2}
	c.run(0, 10, 2)
	c.copy(8, 4) // 2 s of a core beside the launch, 2 s after it
	if end := c.run(12, 5, 2); end != 18 {
		t.Errorf("the next launch ends at %v, want 18", end)
	}
	idle := &cores{count: 2}
	idle.run(0, 10, 1)
	idle.copy(2, 4)
	if end := idle.run(10, 5, 2); end != 15 {
		t.Errorf("a copy on an idle core delays a launch until %v, want 15", end)
	}
}

// Whatever runs, no more cores are busy than there are, and all work is done.
func TestCoresAreConserved(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := &cores{count: float64(rapid.IntRange(1, 8).Draw(t, "cores"))}
		work := 0.0
		for range rapid.IntRange(1, 30).Draw(t, "uses") {
			from, seconds := rapid.Float64Range(0, 50).Draw(t, "from"), rapid.Float64Range(0.01, 10).Draw(t, "seconds")
			if rapid.Bool().Draw(t, "copy") {
				c.copy(from, seconds)
				work += seconds
				continue
			}
			need := float64(rapid.IntRange(1, 8).Draw(t, "need"))
			if end := c.run(from, seconds, need); end < from+seconds-1e-9 {
				t.Fatalf("%v s of work from %v on end at %v", seconds, from, end)
			}
			work += seconds * min(need, c.count)
		}
		done := c.stolen
		for i, u := range c.usage[:len(c.usage)-1] {
			if u.busy > c.count+1e-9 || u.busy < 0 || c.end(i) <= u.from {
				t.Fatalf("usage %v of %v cores", c.usage, c.count)
			}
			done += u.busy * (c.end(i) - u.from)
		}
		if last := c.usage[len(c.usage)-1]; last.busy > 1e-9 || math.Abs(done-work) > 1e-6*work {
			t.Fatalf("%v core seconds of %v are done; %v at the end", done, work, last.busy)
		}
	})
}

// Cores count where several devices, or copies, compete for them.
func TestWhoCompetesForCores(t *testing.T) {
	host, card := device.Spec{Cores: 2, OfCores: 4}, device.Spec{}
	for _, x := range []struct {
		devices []device.Spec
		ranks   []int
		moving  bool
		want    []float64 // 0: nobody competes
	}{
		{[]device.Spec{host}, nil, false, []float64{0}},
		{[]device.Spec{host}, nil, true, []float64{4}},
		{[]device.Spec{host, card}, nil, false, []float64{0}},
		{[]device.Spec{host, host}, nil, false, []float64{4}},
		{[]device.Spec{card, card}, nil, true, []float64{0}},
		{[]device.Spec{host, host, host}, []int{0, 1, 1}, false, []float64{0, 4}},
	} {
		got := coresOf(x.devices, x.ranks, x.moving)
		for r, c := range got {
			if count := x.want[r]; (c == nil) != (count == 0) || c != nil && c.count != count {
				t.Errorf("%+v: rank %d has %+v, want %v cores", x, r, c, count)
			}
		}
		if len(got) != len(x.want) {
			t.Errorf("%+v: %d ranks", x, len(got))
		}
	}
}
