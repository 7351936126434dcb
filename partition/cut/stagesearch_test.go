package cut

import (
	"fmt"
	"math"
	"testing"

	"pgregory.net/rapid"

	"github.com/berth-ml/berth/executor/schedule"
	"github.com/berth-ml/berth/internal/stop"
	"github.com/berth-ml/berth/partition/nets"
	"github.com/berth-ml/berth/partition/nodes"
	"github.com/berth-ml/berth/partition/order"
	"github.com/berth-ml/berth/partition/place"
	"github.com/berth-ml/berth/partition/search"
	"github.com/berth-ml/berth/partition/segment"
)

// searchOf is the search for a net.
func searchOf(t require, s nets.Net, o Options) *stageSearch {
	t.Helper()
	g, err := s.Build()
	if err != nil {
		t.Fatal(err)
	}
	o.Speeds.Devices = o.Devices
	idx, err := nodes.New(g, nodes.Options{Microbatches: s.Microbatches, Splits: o.Pipeline.Splits()}, stop.When(nil))
	if err != nil {
		t.Fatal(err)
	}
	blocks := nodes.Blocks(g)
	pl := place.Nodes(idx, len(blocks), nodes.OneGroupEach(blocks))
	c, err := newStageSearch(segment.NewGroups(idx, pl), blocks, AllowedCuts(idx, pl), o)
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
func drawCosts(t *rapid.T, o *Options, devices int) {
	o.Devices = nets.Specs(devices, 0)
	o.Pipeline.Devices = devices
	o.Pipeline.Microbatches = rapid.SampledFrom([]int{1, 2, 4, 8}).Draw(t, "microbatches")
	o.Pipeline.Name = rapid.SampledFrom([]string{"1f1b", "gpipe", "zb-h1"}).Draw(t, "schedule")
	for d := range o.Devices {
		o.Devices[d].FlopsPerSecond = rapid.SampledFrom([]float64{1e6, 2e6, 3e6}).Draw(t, "speed")
		o.Devices[d].LinkBytesPerS = rapid.SampledFrom([]float64{0, 1e5, 1e9}).Draw(t, "link")
	}
	uneven := rapid.SliceOfN(rapid.IntRange(1, 9), 10, 10).Draw(t, "costs")
	o.Blocks = func(d int, block string, pass schedule.Kind) (float64, bool) {
		i := 0
		fmt.Sscanf(block, "b%d", &i)
		x := float64(uneven[i]) * 1e3 / o.Devices[d].FlopsPerSecond
		switch {
		case pass == schedule.Backward && o.Pipeline.Name != "zb-h1":
			return 2 * x, true
		case pass == schedule.Update:
			return x / 2, true
		case pass == schedule.Weights && o.Pipeline.Name != "zb-h1":
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
		var o Options
		drawCosts(t, &o, rapid.IntRange(1, 3).Draw(t, "devices"))
		blocks := rapid.IntRange(len(o.Devices), 10).Draw(t, "blocks")
		stages := rapid.IntRange(1, len(o.Devices)).Draw(t, "stages")
		n := nets.Chain(blocks, 8, 4, o.Pipeline.Microbatches)
		if rapid.Bool().Draw(t, "branches") {
			for i := range n.Blocks {
				n.Blocks[i].Skip, n.Blocks[i].Tied = rapid.IntRange(-1, i-1).Draw(t, "skip"), rapid.IntRange(0, i).Draw(t, "tied")
			}
		}
		c := searchOf(t, n, o)
		got, ok, err := c.among([][]int{upTo(stages)})
		if err != nil || !ok {
			t.Fatal(ok, err)
		}
		best := search.Way{Seconds: math.Inf(1)}
		nets.EachCut(blocks, len(o.Devices), stages, func(begins, on []int) {
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
	o := Options{Devices: nets.Specs(4, 0), Pipeline: order.Pipeline{Microbatches: 8, Devices: 4}}
	c := searchOf(t, nets.Chain(200, 4, 4, 8), o)
	all, err := c.meter.Measure(0, len(c.blocks), nil)
	if err != nil {
		t.Fatal(err)
	}
	check, size := c.groups.Index.Stop, len(c.groups.Index.Graph.Nodes)
	for _, part := range []int64{10, 6, 4, 3} { // a tenth on each device is too little
		for d := range c.o.Devices {
			c.o.Devices[d].MemoryBytes = nodes.Total(all.Memory(8)) / part
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
