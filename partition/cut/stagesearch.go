package cut

import (
	"fmt"
	"slices"
	"strings"

	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/executor/schedule"
	"github.com/berth-ml/berth/internal/stop"
	"github.com/berth-ml/berth/partition/footprint"
	"github.com/berth-ml/berth/partition/nodes"
	"github.com/berth-ml/berth/partition/search"
	"github.com/berth-ml/berth/partition/segment"
	"github.com/berth-ml/berth/partition/speed"
)

// stageSearch is the blocks of a graph as the search sees them: their costs, and where they may be. A
// call of [Choose] owns it.
type stageSearch struct {
	groups   *segment.Groups
	meter    *footprint.Meter // of the groups
	blocks   []string
	allowed  []bool
	o        Options
	times    []passTimes // by device
	measured bool        // times are; else they follow from flops and bytes
	cross    crossing
	refused  [][]error // by device and block: why the device does not run the block; nil if it does
}

// passTimes are seconds per microbatch of the blocks before each one, by pass; for U
// seconds per step.
type passTimes map[schedule.Kind][]float64

// crossing is the bytes per microbatch that cross the cut before each block.
type crossing struct{ forward, backward []int64 }

// newStageSearch counts the costs of blocks.
func newStageSearch(g *segment.Groups, blocks []string, allowed []bool, o Options) (*stageSearch, error) {
	c := &stageSearch{groups: g, meter: footprint.NewMeter(g), blocks: blocks, allowed: allowed, o: o, refused: refusals(g, blocks, &o, false)}
	if !c.goesBack() {
		c.o.Pipeline.Name, c.o.Pipeline.Order = "forward", nil
	}
	c.useWork()
	c.useMeasured()
	c.cross = crossings(g, len(blocks))
	return c, g.Index.Stop.Err()
}

// goesBack reports whether the graph has a backward pass.
func (c *stageSearch) goesBack() bool {
	for i := range c.groups.All {
		if len(c.groups.All[i].Nodes[graph.Backward]) > 0 {
			return true
		}
	}
	return false
}

// passes are the passes that take time, in the order in which a step has them.
var passes = []schedule.Kind{schedule.Forward, schedule.Backward, schedule.Weights, schedule.Update}

// useMeasured takes the measured times, if each block has them on each device that runs
// it. An update with a node that a device does not run keeps its estimate: the node may be
// on another device.
func (c *stageSearch) useMeasured() {
	if c.o.Blocks == nil {
		return
	}
	var all []passTimes
	for d := range c.o.Devices {
		t, slow := passTimes{}, c.o.Speeds.Slowness(d)
		for _, pass := range passes {
			estimate, sum := c.times[d][pass], make([]float64, len(c.blocks)+1)
			for i, b := range c.blocks {
				seconds, ok := c.o.Blocks(d, b, pass)
				if _, pinned := c.o.Ops[b]; pinned {
					seconds, ok = 0, true
				}
				if !ok && !c.refusedNear(d, i) && pass != schedule.Update {
					return
				}
				if !ok {
					seconds = (estimate[i+1] - estimate[i]) / slow
				}
				sum[i+1] = sum[i] + seconds*slow
			}
			t[pass] = sum
		}
		all = append(all, t)
	}
	c.times, c.measured = all, true
}

// refusedNear reports whether a device does not run a block, or one that cannot be cut
// apart from it.
func (c *stageSearch) refusedNear(d, block int) bool {
	from, to := block, block+1
	for !c.allowed[from] {
		from--
	}
	for !c.allowed[to] {
		to++
	}
	return slices.ContainsFunc(c.refused[d][from:to], func(err error) bool { return err != nil })
}

// useWork takes the times that follow from flops and bytes, as for predictions.
func (c *stageSearch) useWork() {
	n := len(c.blocks)
	works := map[schedule.Kind][]speed.Work{}
	for _, pass := range passes {
		works[pass] = make([]speed.Work, n)
	}
	for i, x := range c.groups.All {
		if _, pinned := c.o.Ops[c.blocks[i]]; pinned {
			continue // it takes the time of another device
		}
		backward, weights := c.groups.SplitBackward(i, i+1, x.Nodes[graph.Backward])
		works[schedule.Forward][i] = speed.WorkOf(c.groups.Index.Stop, x.Nodes[graph.Forward])
		works[schedule.Backward][i] = speed.WorkOf(c.groups.Index.Stop, backward)
		works[schedule.Weights][i] = speed.WorkOf(c.groups.Index.Stop, weights)
		works[schedule.Update][i] = speed.WorkOf(c.groups.Index.Stop, x.Nodes[graph.Update])
	}
	c.times = nil
	for d, spec := range c.o.Devices {
		t := passTimes{}
		for _, pass := range passes {
			t[pass] = make([]float64, n+1)
			for i, w := range works[pass] {
				t[pass][i+1] = t[pass][i] + w.Seconds(spec)*c.o.Speeds.Slowness(d)
			}
		}
		c.times = append(c.times, t)
	}
}

// crossings counts, for each cut, the values that blocks before it make and blocks
// behind it read, or the other way round.
func crossings(g *segment.Groups, blocks int) crossing {
	c := crossing{make([]int64, blocks+1), make([]int64, blocks+1)}
	for _, n := range stop.Each(g.Index.Stop, g.Index.Graph.Nodes) {
		if n.Phase == graph.Update {
			continue
		}
		at := g.Placement.Node[n.ID]
		for _, v := range n.Out {
			first, last := at, at
			for _, r := range g.Index.Readers[v.ID] {
				if r.Phase != graph.Update {
					first, last = min(first, g.Placement.Node[r.ID]), max(last, g.Placement.Node[r.ID])
				}
			}
			footprint.AddOver(c.forward, at, last, v.Meta.Bytes())
			footprint.AddOver(c.backward, first, at, v.Meta.Bytes())
		}
	}
	for i := 1; i <= blocks; i++ {
		c.forward[i] += c.forward[i-1]
		c.backward[i] += c.backward[i-1]
	}
	return c
}

// groupsOf is the number of parts into which blocks can be cut.
func groupsOf(allowed []bool) (n int) {
	for _, ok := range allowed[:len(allowed)-1] {
		if ok {
			n++
		}
	}
	return n
}

// among searches pipelines; ok is false if none has a way.
func (c *stageSearch) among(shapes [][]int) (w search.Way, ok bool, err error) {
	ask := c.groups.Index.Stop
	p := &search.Problem{
		Begins: c.allowed, Shapes: shapes, Microbatches: c.o.Pipeline.Microbatches, Stop: ask,
		Cross: make([]int64, len(c.blocks)+1), InFlight: c.o.Pipeline.InFlight, Simulate: c.simulate,
		Footprint: c.footprint,
	}
	if c.limited() {
		b := footprint.NewBounds(c.meter)
		p.AtLeast, p.AtMost = b.AtLeast, b.AtMost
	}
	if n := min(mostPredicted, nodesPredicted/len(c.groups.Index.Graph.Nodes)); n > 0 && !c.measured && c.o.Predict != nil { // most segments have no measured times yet
		p.Predict, p.Predicted = c.predict, n
	}
	for i := range p.Cross {
		p.Cross[i] = c.cross.forward[i] + c.cross.backward[i]
	}
	for d := range c.o.Devices {
		p.Devices = append(p.Devices, c.device(d))
	}
	return search.Best(p)
}

// limited reports whether a device has a limit.
func (c *stageSearch) limited() bool {
	for i := range c.o.Devices {
		if c.o.Devices[i].MemoryBytes > 0 {
			return true
		}
	}
	return false
}

// device is a device as the search sees it.
func (c *stageSearch) device(d int) search.Device {
	spec, n := c.o.Devices[d], len(c.blocks)
	x := search.Device{MemoryBytes: spec.MemoryBytes, BytesPerS: spec.LinkBytesPerS, Seconds: make([]float64, n+1), Barred: c.barred(d)}
	for i := range x.Seconds {
		for _, pass := range passes {
			t := c.times[d][pass][i]
			if pass == schedule.Update {
				t /= float64(c.o.Pipeline.Microbatches)
			}
			x.Seconds[i] += t
		}
	}
	for e := range d {
		if c.alike(e, d) && len(c.o.Pin) == 0 {
			x.Class = e
			return x
		}
	}
	x.Class = d
	return x
}

// alike reports whether two devices are interchangeable.
func (c *stageSearch) alike(a, b int) bool {
	x, y := c.o.Devices[a], c.o.Devices[b]
	x.ID, x.Description = y.ID, y.Description
	return x == y && c.o.Speeds.Slowness(a) == c.o.Speeds.Slowness(b)
}

// barred counts the blocks before each that a device does not support; nil if there
// are none.
func (c *stageSearch) barred(d int) []int {
	count := make([]int, len(c.blocks)+1)
	for i, b := range c.blocks {
		count[i+1] = count[i]
		if on, ok := c.o.on(b); ok && on != d || c.refused[d][i] != nil {
			count[i+1]++
		}
	}
	if count[len(c.blocks)] == 0 {
		return nil
	}
	return count
}

// impossible says why there is no way at all.
func (c *stageSearch) impossible() error {
	for i, b := range c.blocks {
		var whys []string
		for d := range c.o.Devices {
			if why := c.refused[d][i]; why != nil {
				whys = append(whys, fmt.Sprintf("%s: %s", c.o.Devices[d].ID, WhyNot(why)))
			}
		}
		if len(whys) == len(c.o.Devices) {
			return fmt.Errorf("%w: no device runs block %q (%s)", ErrStages, c.o.Pieces.Whole(b), strings.Join(whys, "; "))
		}
	}
	for i, b := range c.blocks {
		if d, pinned := c.o.on(b); pinned && c.refused[d][i] != nil {
			return AsPin(c.o.Pieces.Whole(b), fmt.Errorf("block %q is pinned to %s, which does not run it: %s; pin it to another device", c.o.Pieces.Whole(b), c.o.Devices[d].ID, WhyNot(c.refused[d][i])))
		}
	}
	if len(c.o.Pin) > 0 {
		return AsPin("", fmt.Errorf("%s cannot be cut so that each pinned block is on its device; ask for another number of stages, or list the stages by hand", strings.Join(c.o.Pieces.Blocks(c.blocks), ", ")))
	}
	return fmt.Errorf("%w: no order of the devices gives every block one that runs it; ask for another number of stages, or list more devices", ErrStages)
}

// footprint is the memory of blocks lo to hi-1 as one stage.
func (c *stageSearch) footprint(lo, hi int) search.Footprint {
	f, err := c.meter.Measure(lo, hi, nil)
	if err != nil {
		return search.Footprint{} // the search stops
	}
	return search.Footprint{Fixed: nodes.Total(f.Fixed), PerFlight: f.PerFlight}
}

// mostSimulated is the most microbatches that are simulated: beyond them, the
// bottleneck decides.
const mostSimulated = 24

// simulate is the time of a step.
func (c *stageSearch) simulate(w search.Way) float64 {
	microbatches := min(c.o.Pipeline.Microbatches, mostSimulated)
	s, err := c.o.Pipeline.Schedule(w.Devices, microbatches)
	if err != nil {
		return w.Seconds // it is refused later, by name
	}
	at := func(stage int) (lo, hi int) {
		if stage+1 < len(w.Begins) {
			return w.Begins[stage], w.Begins[stage+1]
		}
		return w.Begins[stage], len(c.blocks)
	}
	line := s.Simulate(schedule.Costs{
		Action: func(a schedule.Action) float64 {
			lo, hi := at(a.Stage)
			t := c.times[w.Devices[a.Stage]]
			sum := t[a.Kind]
			if sum == nil {
				return 0
			}
			return sum[hi] - sum[lo] + c.perLaunch()
		},
		Copy: func(from, to schedule.Action) float64 {
			bytes, cut := c.cross.forward, w.Begins[to.Stage]
			if from.Stage > to.Stage {
				bytes, cut = c.cross.backward, w.Begins[from.Stage]
			}
			return c.o.Speeds.CopySeconds(bytes[cut], w.Devices[from.Stage], w.Devices[to.Stage])
		},
	})
	if more := c.o.Pipeline.Microbatches - microbatches; more > 0 {
		return line.Makespan + float64(more)*w.Seconds/float64(c.o.Pipeline.Microbatches)
	}
	return line.Makespan
}

// The most ways whose plans are made to predict their steps, and the most nodes of all
// of them together: a plan takes some microseconds for each node.
const (
	mostPredicted  = 16
	nodesPredicted = 30_000
)

// predict is the time of a step by the plan of a way.
func (c *stageSearch) predict(w search.Way) float64 {
	return c.o.Predict(c.result(w, nil), min(c.o.Pipeline.Microbatches, mostSimulated))
}

// perLaunch is the time from one action to the next. Measured times include it.
func (c *stageSearch) perLaunch() float64 {
	if c.measured {
		return 0
	}
	return speed.Overhead
}

// result turns a way into a cut.
func (c *stageSearch) result(w search.Way, fewer *Fewer) Cut {
	n, blocks := len(w.Begins), len(c.blocks)
	out := Cut{Blocks: c.blocks, StageOf: make([]int, blocks), Device: w.Devices, Cause: make([]string, n), Fewer: fewer}
	for stage, lo := range w.Begins {
		hi := blocks
		if stage+1 < n {
			hi = w.Begins[stage+1]
		}
		for i := lo; i < hi; i++ {
			out.StageOf[i] = stage
		}
		refused := c.elsewhere(w.Devices[stage], lo, hi)
		out.Refused = append(out.Refused, refused...)
		out.Cause[stage] = c.cause(w, stage, lo, hi)
		if refused != nil {
			out.Cause[stage] += "; " + strings.Join(refused, "; ")
		}
	}
	return out.apart(c.o)
}

// cause says why blocks lo to hi-1 are a stage.
func (c *stageSearch) cause(w search.Way, stage, lo, hi int) string {
	of, d := "estimated time", w.Devices[stage]
	part := func(kinds ...schedule.Kind) (share float64) {
		sum, all := 0.0, 0.0
		for _, k := range kinds {
			t := c.times[d][k]
			sum, all = sum+t[hi]-t[lo], all+t[len(t)-1]
		}
		if all == 0 {
			return 0
		}
		return sum / all
	}
	share := part(schedule.Forward, schedule.Backward, schedule.Weights)
	if c.measured {
		of = "measured time"
	}
	why := fmt.Sprintf("automatic: %.0f%% of the %s", 100*share, of)
	if p := pinned(c.o, c.blocks[lo:hi]); p != "" {
		return why + p
	}
	switch {
	case w.Reordered && w.Tried > 1:
		why += fmt.Sprintf(", %s is the device that suits best (%d ways were compared)", c.o.Devices[d].ID, w.Tried)
	case w.Reordered:
		why += ", the only way that fits"
	}
	return why
}

// elsewhere says why blocks lo to hi-1 are not on other kinds of devices than d's.
func (c *stageSearch) elsewhere(d, lo, hi int) (lines []string) {
	kinds := map[string]bool{c.o.Devices[d].Kind: true}
	for e, spec := range c.o.Devices {
		i := slices.IndexFunc(c.refused[e][lo:hi], func(err error) bool { return err != nil })
		if i >= 0 && !kinds[spec.Kind] {
			kinds[spec.Kind] = true
			lines = append(lines, fmt.Sprintf("%s does not run %s: %s", spec.ID, c.blocks[lo+i], WhyNot(c.refused[e][lo+i])))
		}
	}
	return lines
}
