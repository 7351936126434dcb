package partition

import (
	"fmt"
	"math"
	"testing"

	"pgregory.net/rapid"

	"github.com/berth-ml/berth/executor/schedule"
	"github.com/berth-ml/berth/internal/stop"
	"github.com/berth-ml/berth/partition/search"
)

// searchOf is the search for a net.
func searchOf(t require, s net, o cutOptions) *stageSearch {
	t.Helper()
	g, err := s.build()
	if err != nil {
		t.Fatal(err)
	}
	o.speeds.devices = o.devices
	idx, err := newIndex(g, indexOptions{microbatches: s.microbatches, splits: o.pipeline.splits()}, stop.When(nil))
	if err != nil {
		t.Fatal(err)
	}
	blocks := findBlocks(g)
	pl := place(idx, len(blocks), oneGroupEach(blocks))
	c, err := newStageSearch(readyUnits(idx, pl), blocks, allowedCuts(idx, pl), o)
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
func drawCosts(t *rapid.T, o *cutOptions, devices int) {
	o.devices = specs(devices, 0)
	o.pipeline.devices = devices
	o.pipeline.microbatches = rapid.SampledFrom([]int{1, 2, 4, 8}).Draw(t, "microbatches")
	o.pipeline.name = rapid.SampledFrom([]string{"1f1b", "gpipe", "zb-h1"}).Draw(t, "schedule")
	for d := range o.devices {
		o.devices[d].FlopsPerSecond = rapid.SampledFrom([]float64{1e6, 2e6, 3e6}).Draw(t, "speed")
		o.devices[d].LinkBytesPerS = rapid.SampledFrom([]float64{0, 1e5, 1e9}).Draw(t, "link")
	}
	uneven := rapid.SliceOfN(rapid.IntRange(1, 9), 10, 10).Draw(t, "costs")
	o.blocks = func(d int, block string, pass schedule.Kind) (float64, bool) {
		i := 0
		fmt.Sscanf(block, "b%d", &i)
		x := float64(uneven[i]) * 1e3 / o.devices[d].FlopsPerSecond
		switch {
		case pass == schedule.Backward && o.pipeline.name != "zb-h1":
			return 2 * x, true
		case pass == schedule.Update:
			return x / 2, true
		case pass == schedule.Weights && o.pipeline.name != "zb-h1":
			return 0, true
		}
		return x, true
	}
}

// The search finds the way that is fastest by simulation of all ways, up to ten
// blocks on three devices, or a more even one that is hardly slower. Blocks can have skip
// connections and tied weights.
func TestSearchIsTheBest(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var o cutOptions
		drawCosts(t, &o, rapid.IntRange(1, 3).Draw(t, "devices"))
		blocks := rapid.IntRange(len(o.devices), 10).Draw(t, "blocks")
		stages := rapid.IntRange(1, len(o.devices)).Draw(t, "stages")
		n := chain(blocks, 8, 4, o.pipeline.microbatches)
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
		eachWay(blocks, len(o.devices), stages, func(begins, on []int) {
			w := search.Way{Begins: begins, Devices: on}
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
	o := cutOptions{devices: specs(4, 0), pipeline: pipeline{microbatches: 8, devices: 4}}
	c := searchOf(t, chain(200, 4, 4, 8), o)
	all, err := c.meter.measure(0, len(c.blocks), nil)
	if err != nil {
		t.Fatal(err)
	}
	check, size := c.groups.idx.stop, len(c.groups.idx.g.Nodes)
	for _, part := range []int64{10, 6, 4, 3} { // a tenth on each device is too little
		for d := range c.o.devices {
			c.o.devices[d].MemoryBytes = total(all.memory(8)) / part
		}
		before := check.Items()
		if _, ok, err := c.among([][]int{upTo(4)}); err != nil || !ok {
			t.Fatal(ok, err)
		}
		if passes := (check.Items() - before) / size; passes > 400 {
			t.Errorf("1/%d of the memory: as much work as %d passes over the graph", part, passes)
		}
	}
}
