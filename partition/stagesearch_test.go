package partition

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/berth-ml/berth/executor/schedule"
	"github.com/berth-ml/berth/internal/stop"
	"github.com/berth-ml/berth/partition/search"
)

// searchOf is the search for a net.
func searchOf(t require, s net, o PlanOptions) *stageSearch {
	t.Helper()
	g, err := s.build()
	if err != nil {
		t.Fatal(err)
	}
	if o, err = o.checked(); err != nil {
		t.Fatal(err)
	}
	idx, err := newIndex(g, o.index(), stop.When(nil))
	if err != nil {
		t.Fatal(err)
	}
	blocks := findBlocks(g)
	pl := place(idx, len(blocks), oneGroupEach(blocks))
	c, err := newStageSearch(readyUnits(idx, pl), blocks, allowedCuts(idx, pl), o.cutting(idx))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// require is a *testing.T or *rapid.T.
type require interface {
	Helper()
	Fatal(args ...any)
}

// drawCosts makes devices and the times of blocks up: of equal and of different speed,
// with slow and with fast links.
func drawCosts(t *rapid.T, o *PlanOptions, devices int) {
	o.Devices = specs(devices, 0)
	o.Microbatches = rapid.SampledFrom([]int{1, 2, 4, 8}).Draw(t, "microbatches")
	o.Schedule = rapid.SampledFrom([]string{"1f1b", "gpipe", "zb-h1"}).Draw(t, "schedule")
	for d := range o.Devices {
		o.Devices[d].FlopsPerSecond = rapid.SampledFrom([]float64{1e6, 2e6, 3e6}).Draw(t, "speed")
		o.Devices[d].LinkBytesPerS = rapid.SampledFrom([]float64{0, 1e5, 1e9}).Draw(t, "link")
	}
	uneven := rapid.SliceOfN(rapid.IntRange(1, 9), 10, 10).Draw(t, "costs")
	o.BlockSeconds = func(d int, block string, pass schedule.Kind) (float64, bool) {
		i := 0
		fmt.Sscanf(block, "b%d", &i)
		x := float64(uneven[i]) * 1e3 / o.Devices[d].FlopsPerSecond
		switch {
		case pass == schedule.Backward && o.Schedule != "zb-h1":
			return 2 * x, true
		case pass == schedule.Update:
			return x / 2, true
		case pass == schedule.Weights && o.Schedule != "zb-h1":
			return 0, true
		}
		return x, true
	}
}

// eachWay calls f for every cut of the blocks into stages on different devices.
func eachWay(c *stageSearch, stages int, f func(search.Way)) {
	var cuts func(begins []int)
	var place func(begins, devices []int)
	place = func(begins, devices []int) {
		if len(devices) == len(begins) {
			f(search.Way{Begins: slices.Clone(begins), Devices: slices.Clone(devices)})
			return
		}
		for d := range c.o.devices {
			if !slices.Contains(devices, d) {
				place(begins, append(devices[:len(devices):len(devices)], d))
			}
		}
	}
	cuts = func(begins []int) {
		if len(begins) == stages {
			place(begins, nil)
			return
		}
		for next := begins[len(begins)-1] + 1; next < len(c.blocks); next++ {
			cuts(append(begins[:len(begins):len(begins)], next))
		}
	}
	cuts([]int{0})
}

// The search finds the way that is fastest by simulation of all ways, up to ten
// blocks on three devices, or a more even one that is hardly slower. Blocks can have skip
// connections and tied weights.
func TestSearchIsTheBest(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var o PlanOptions
		drawCosts(t, &o, rapid.IntRange(1, 3).Draw(t, "devices"))
		blocks := rapid.IntRange(len(o.Devices), 10).Draw(t, "blocks")
		stages := rapid.IntRange(1, len(o.Devices)).Draw(t, "stages")
		n := chain(blocks, 8, 4, o.Microbatches)
		if rapid.Bool().Draw(t, "branches") {
			for i := range n.blocks {
				n.blocks[i].skip, n.blocks[i].tied = rapid.IntRange(-1, i-1).Draw(t, "skip"), rapid.IntRange(0, i).Draw(t, "tied")
			}
		}
		c := searchOf(t, n, o)
		got, ok, err := c.among([][]int{upTo(stages)})
		if err != nil || !ok {
			t.Fatal(ok, err)
		}
		best := search.Way{Seconds: math.Inf(1)}
		eachWay(c, stages, func(w search.Way) {
			if w.Seconds = c.simulate(w); w.Seconds < best.Seconds {
				best = w
			}
		})
		if s := c.simulate(got); s > (best.Seconds+50e-6)/0.97+1e-12 {
			t.Fatalf("found %+v, which takes %v s; the best is %+v", got, s, best)
		}
	})
}

func upTo(n int) (list []int) {
	for i := range n {
		list = append(list, i)
	}
	return list
}

// Under a limit, 200 blocks are cut without measuring every range of them: that would
// be as much work as 25000 passes over the graph.
func TestLongChainUnderLimit(t *testing.T) {
	o := PlanOptions{Devices: specs(4, 0), Microbatches: 8}
	c := searchOf(t, chain(200, 4, 4, o.Microbatches), o)
	all, err := c.meter.measure(0, len(c.blocks), nil)
	if err != nil {
		t.Fatal(err)
	}
	check, nodes := c.groups.idx.stop, len(c.groups.idx.g.Nodes)
	for _, part := range []int64{10, 6, 4, 3} { // a tenth on each device is too little
		for d := range c.o.devices {
			c.o.devices[d].MemoryBytes = total(all.memory(o.Microbatches)) / part
		}
		before := check.Items()
		if _, ok, err := c.among([][]int{upTo(4)}); err != nil || !ok {
			t.Fatal(ok, err)
		}
		if passes := (check.Items() - before) / nodes; passes > 500 { // of which few predict plans
			t.Errorf("1/%d of the memory: as much work as %d passes over the graph", part, passes)
		}
	}
}
