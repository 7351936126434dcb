package search

import (
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/berth-ml/berth/internal/stop"
)

// drawProblem makes a problem of one line of equal devices, whose stages may share
// them.
func drawProblem(t *rapid.T) *Problem {
	blocks := rapid.IntRange(1, 6).Draw(t, "blocks")
	stages := rapid.IntRange(1, blocks).Draw(t, "stages")
	devices := rapid.IntRange(1, min(3, stages)).Draw(t, "devices")
	memory := int64(rapid.IntRange(20, 80).Draw(t, "memory"))
	shape := make([]int, stages)
	for s := range shape {
		shape[s] = s * devices / stages
	}
	p := &Problem{Shapes: [][]int{shape}, Microbatches: 6, Stop: stop.When(nil)}
	seconds := []float64{0}
	for i := range blocks + 1 {
		p.Begins = append(p.Begins, i == 0 || i == blocks || rapid.IntRange(0, 4).Draw(t, "begins") > 0 || stages == blocks)
		p.Cross = append(p.Cross, int64(rapid.IntRange(0, 5).Draw(t, "cross")))
		if i < blocks {
			seconds = append(seconds, seconds[i]+float64(rapid.IntRange(0, 4).Draw(t, "seconds")))
		}
	}
	for range devices {
		p.Devices = append(p.Devices, Device{MemoryBytes: memory, Seconds: seconds})
	}
	foot := map[[2]int]Footprint{}
	for lo := range blocks {
		for hi := lo + 1; hi <= blocks; hi++ {
			foot[[2]int{lo, hi}] = Footprint{int64(rapid.IntRange(0, 20).Draw(t, "fixed")), int64(rapid.IntRange(0, 5).Draw(t, "flight"))}
		}
	}
	p.Footprint = func(lo, hi int) Footprint { return foot[[2]int{lo, hi}] }
	p.InFlight = func(devices []int) []int {
		n := make([]int, len(devices))
		for s := range n {
			n[s] = len(n) - s
		}
		return n
	}
	return p
}

// TestBottleneckIsTheLeast compares the dynamic program with trying every cut: the
// busiest device has no more to do, and no more bytes cross.
func TestBottleneckIsTheLeast(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := drawProblem(t)
		lines := p.lines()
		if len(lines) == 0 {
			return // too few cuts are allowed
		}
		l := lines[0]
		l.flight = p.InFlight(l.devices)
		found, fits := (&cuts{Problem: p, line: l, foot: map[[2]int]Footprint{}}).best()
		all, any := (&cuts{Problem: p, line: l, foot: map[[2]int]Footprint{}}).all()
		if fits != any {
			t.Fatalf("a cut fits: %v; of all cuts: %v", fits, any)
		}
		if !fits {
			return
		}
		got, want := found[0], slices.MinFunc(all, func(a, b Way) int { return likely(p.rated(a), p.rated(b)) })
		if g, w := p.rated(got), p.rated(want); g.Seconds != w.Seconds || g.cross != w.cross {
			t.Fatalf("found %+v, best is %+v", g, w)
		}
		for _, w := range found {
			if !slices.ContainsFunc(all, func(x Way) bool { return slices.Equal(x.Begins, w.Begins) }) {
				t.Fatalf("%+v does not fit", w)
			}
		}
	})
}

// Bounds on the memory of stages change no cut where each stage has a device of its
// own, and spare what they decide.
func TestBoundsChangeNoCut(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := drawProblem(t)
		stages := min(len(p.Shapes[0]), len(p.Devices))
		p.Shapes[0] = p.Shapes[0][:stages]
		for s := range stages {
			p.Shapes[0][s] = s
		}
		best := func() (w Way, measured int) {
			footprint := p.Footprint
			defer func() { p.Footprint = footprint }()
			p.Footprint = func(lo, hi int) Footprint { measured++; return footprint(lo, hi) }
			w, _, err := Best(p)
			if err != nil {
				t.Fatal(err)
			}
			return w, measured
		}
		want, all := best()
		least, most := rapid.Int64Range(0, 9).Draw(t, "least"), rapid.Int64Range(0, 9).Draw(t, "most")
		footprint := p.Footprint
		p.AtLeast = func(lo, hi int) Footprint { return footprint(lo, hi).Minus(Footprint{Fixed: least}) }
		p.AtMost = func(lo, hi int) Footprint { return footprint(lo, hi).Plus(Footprint{Fixed: most}) }
		got, some := best()
		if !slices.Equal(got.Begins, want.Begins) || !slices.Equal(got.Devices, want.Devices) || got.Fits != want.Fits {
			t.Fatalf("with bounds %+v, without %+v", got, want)
		}
		if some > all {
			t.Fatalf("%d stages were measured, without bounds %d", some, all)
		}
	})
}

// rated is a way with its bottleneck as its time.
func (p *Problem) rated(w Way) Way {
	load := map[int]float64{}
	w.Seconds = 0
	for s, d := range w.Devices {
		hi := p.blocks()
		if s+1 < len(w.Begins) {
			hi = w.Begins[s+1]
		}
		load[d] += p.seconds(w.Begins[s], hi, d)
		w.Seconds = max(w.Seconds, load[d])
	}
	return w
}

// chainOf is n equal blocks on devices of these speeds.
func chainOf(n int, speeds ...float64) *Problem {
	p := &Problem{Microbatches: 8, Stop: stop.When(nil), Cross: make([]int64, n+1)}
	shape := []int{}
	for d, speed := range speeds {
		x := Device{Class: slices.Index(speeds, speed), Seconds: make([]float64, n+1)}
		for i := range x.Seconds {
			x.Seconds[i] = float64(i) / speed
		}
		p.Devices, shape = append(p.Devices, x), append(shape, d)
	}
	p.Begins, p.Shapes = slices.Repeat([]bool{true}, n+1), [][]int{shape}
	p.InFlight = func(devices []int) []int { return make([]int, len(devices)) }
	return p
}

// Equal devices are taken in the order of the list, and count as one.
func TestEqualDevicesAreOne(t *testing.T) {
	p := chainOf(16, 1, 1, 1, 1)
	if lines := p.lines(); len(lines) != 1 || !slices.Equal(lines[0].devices, []int{0, 1, 2, 3}) {
		t.Errorf("%d lines", len(lines))
	}
	if n := len(chainOf(16, 1, 2, 1, 2).lines()); n != 6 {
		t.Errorf("two pairs of equal devices have %d orders, want 6", n)
	}
	way, ok, err := Best(p)
	if err != nil || !ok || !slices.Equal(way.Begins, []int{0, 4, 8, 12}) {
		t.Error(way, ok, err)
	}
}

// Of pipelines of one to three devices the one is taken that suits: a slow device
// does not take part.
func TestSlowDeviceIsLeftOut(t *testing.T) {
	p := chainOf(8, 1, 0.01, 1)
	p.Shapes = [][]int{{0}, {0, 1}, {0, 1, 2}}
	way, ok, err := Best(p)
	if err != nil || !ok || !slices.Equal(way.Devices, []int{0, 2}) || !slices.Equal(way.Begins, []int{0, 4}) {
		t.Errorf("%+v, %v, %v", way, ok, err)
	}
}

// A block that only one device runs is on that device, wherever it is in the list.
func TestBarredBlocks(t *testing.T) {
	p := chainOf(4, 1, 1)
	p.Devices[0].Class, p.Devices[1].Class = 0, 1
	p.Devices[0].Barred = []int{0, 1, 1, 1, 1} // the first block
	way, ok, err := Best(p)
	if err != nil || !ok || !slices.Equal(way.Devices, []int{1, 0}) {
		t.Errorf("%+v, %v, %v", way, ok, err)
	}
	p.Devices[1].Barred = []int{0, 1, 1, 1, 1}
	if way, ok, err := Best(p); ok || err != nil {
		t.Errorf("%+v, %v, %v", way, ok, err)
	}
}

// Two hundred blocks on eight different devices take few steps: of a second.
func TestLongChainOnManyDevices(t *testing.T) {
	p := chainOf(200, 1, 2, 3, 4, 1, 2, 3, 4)
	measured := 0
	p.Footprint = func(lo, hi int) Footprint { measured++; return Footprint{Fixed: int64(hi - lo)} }
	for d := range p.Devices {
		p.Devices[d].MemoryBytes = 40
	}
	way, ok, err := Best(p)
	if err != nil || !ok || !way.Fits || measured > 4000 {
		t.Errorf("%+v, %v, %v: %d stages were measured", way, ok, err, measured)
	}
	if math.IsInf(way.Seconds, 0) {
		t.Error(way)
	}
}

// A chain whose last blocks are one piece has a way, though the stages before it must leave more blocks than there are
// stages behind them.
func TestLastBlocksInOnePiece(t *testing.T) {
	p := chainOf(6, 1, 1, 1)
	p.Begins[4], p.Begins[5] = false, false
	way, ok, err := Best(p)
	if err != nil || !ok || way.Begins[2] != 3 {
		t.Errorf("%+v, %v, %v", way, ok, err)
	}
}
