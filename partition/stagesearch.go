package partition

import (
	"fmt"
	"slices"
	"strings"

	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/executor/schedule"
	"github.com/berth-ml/berth/internal/stop"
	"github.com/berth-ml/berth/partition/search"
)

// stageSearch is the blocks of a graph as the search sees them.
type stageSearch struct {
	groups   *grouped
	meter    *meter // of the groups
	blocks   []string
	allowed  []bool
	o        cutOptions
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

// newStageSearch is pass 2: the costs of blocks.
func newStageSearch(g *grouped, blocks []string, allowed []bool, o cutOptions) (*stageSearch, error) {
	c := &stageSearch{groups: g, meter: newMeter(g), blocks: blocks, allowed: allowed, o: o, refused: refusals(g, &o, false)}
	if !c.goesBack() {
		c.o.pipeline.name, c.o.pipeline.order = "forward", nil
	}
	c.useWork()
	c.useMeasured()
	c.cross = crossings(g, len(blocks))
	return c, g.idx.stop.Err()
}

// goesBack reports whether the graph has a backward pass.
func (c *stageSearch) goesBack() bool {
	for i := range c.groups.groups {
		if len(c.groups.groups[i].nodes[graph.Backward]) > 0 {
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
	if c.o.blocks == nil {
		return
	}
	var all []passTimes
	for d := range c.o.devices {
		t := passTimes{}
		for _, pass := range passes {
			estimate, sum := c.times[d][pass], make([]float64, len(c.blocks)+1)
			for i, b := range c.blocks {
				seconds, ok := c.o.blocks(d, b, pass)
				if !ok && !c.refusedNear(d, i) && pass != schedule.Update {
					return
				}
				if !ok {
					seconds = estimate[i+1] - estimate[i]
				}
				sum[i+1] = sum[i] + seconds
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
	works := map[schedule.Kind][]work{}
	for _, pass := range passes {
		works[pass] = make([]work, n)
	}
	for i, x := range c.groups.groups {
		backward, weights := c.groups.splitBackward(i, i+1, x.nodes[graph.Backward])
		works[schedule.Forward][i] = workOf(c.groups.idx.stop, x.nodes[graph.Forward])
		works[schedule.Backward][i] = workOf(c.groups.idx.stop, backward)
		works[schedule.Weights][i] = workOf(c.groups.idx.stop, weights)
		works[schedule.Update][i] = workOf(c.groups.idx.stop, x.nodes[graph.Update])
	}
	c.times = nil
	for _, spec := range c.o.devices {
		t := passTimes{}
		for _, pass := range passes {
			t[pass] = make([]float64, n+1)
			for i, w := range works[pass] {
				t[pass][i+1] = t[pass][i] + w.seconds(spec)
			}
		}
		c.times = append(c.times, t)
	}
}

// crossings counts, for each cut, the values that blocks before it make and blocks
// behind it read, or the other way round.
func crossings(g *grouped, blocks int) crossing {
	c := crossing{make([]int64, blocks+1), make([]int64, blocks+1)}
	for _, n := range stop.Each(g.idx.stop, g.idx.g.Nodes) {
		if n.Phase == graph.Update {
			continue
		}
		at := g.pl.node[n.ID]
		for _, v := range n.Out {
			first, last := at, at
			for _, r := range g.idx.readers[v.ID] {
				if r.Phase != graph.Update {
					first, last = min(first, g.pl.node[r.ID]), max(last, g.pl.node[r.ID])
				}
			}
			addOver(c.forward, at, last, v.Meta.Bytes())
			addOver(c.backward, first, at, v.Meta.Bytes())
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
	ask := c.groups.idx.stop
	p := &search.Problem{
		Begins: c.allowed, Shapes: shapes, Microbatches: c.o.pipeline.microbatches, Stop: ask,
		Cross: make([]int64, len(c.blocks)+1), InFlight: c.o.pipeline.inFlight, Simulate: c.simulate,
		Footprint: c.footprint,
	}
	if c.limited() {
		b := newBounds(c.meter)
		p.AtLeast, p.AtMost = b.atLeast, b.atMost
	}
	if n := min(mostPredicted, nodesPredicted/len(c.groups.idx.g.Nodes)); n > 0 && !c.measured && c.o.predict != nil { // most segments have no measured times yet
		p.Predict, p.Predicted = c.predict, n
	}
	for i := range p.Cross {
		p.Cross[i] = c.cross.forward[i] + c.cross.backward[i]
	}
	for d := range c.o.devices {
		p.Devices = append(p.Devices, c.device(d))
	}
	return search.Best(p)
}

// limited reports whether a device has a limit.
func (c *stageSearch) limited() bool {
	for i := range c.o.devices {
		if c.o.devices[i].MemoryBytes > 0 {
			return true
		}
	}
	return false
}

// device is a device as the search sees it.
func (c *stageSearch) device(d int) search.Device {
	spec, n := c.o.devices[d], len(c.blocks)
	x := search.Device{MemoryBytes: spec.MemoryBytes, BytesPerS: spec.LinkBytesPerS, Seconds: make([]float64, n+1), Barred: c.barred(d)}
	for i := range x.Seconds {
		for _, pass := range passes {
			t := c.times[d][pass][i]
			if pass == schedule.Update {
				t /= float64(c.o.pipeline.microbatches)
			}
			x.Seconds[i] += t
		}
	}
	for e := range d {
		if c.alike(e, d) && len(c.o.pin) == 0 {
			x.Class = e
			return x
		}
	}
	x.Class = d
	return x
}

// alike reports whether two devices are interchangeable.
func (c *stageSearch) alike(a, b int) bool {
	x, y := c.o.devices[a], c.o.devices[b]
	x.ID, x.Description = y.ID, y.Description
	return x == y
}

// barred counts the blocks before each that a device does not support; nil if there
// are none.
func (c *stageSearch) barred(d int) []int {
	count := make([]int, len(c.blocks)+1)
	for i, b := range c.blocks {
		count[i+1] = count[i]
		if on, ok := c.o.pin[b]; ok && on != d || c.refused[d][i] != nil {
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
		for d := range c.o.devices {
			if why := c.refused[d][i]; why != nil {
				whys = append(whys, fmt.Sprintf("%s: %s", c.o.devices[d].ID, whyNot(why)))
			}
		}
		if len(whys) == len(c.o.devices) {
			return fmt.Errorf("%w: no device runs block %q (%s)", ErrStages, b, strings.Join(whys, "; "))
		}
	}
	for i, b := range c.blocks {
		if d, pinned := c.o.pin[b]; pinned && c.refused[d][i] != nil {
			return &PinError{fmt.Errorf("%w: block %q is pinned to %s, which does not run it: %s; pin it to another device", ErrStages, b, c.o.devices[d].ID, whyNot(c.refused[d][i]))}
		}
	}
	if len(c.o.pin) > 0 {
		return &PinError{fmt.Errorf("%w: %s cannot be cut so that each pinned block is on its device; ask for another number of stages, or list the stages by hand", ErrStages, strings.Join(c.blocks, ", "))}
	}
	return fmt.Errorf("%w: no order of the devices gives every block one that runs it; ask for another number of stages, or list more devices", ErrStages)
}

// footprint is the memory of blocks lo to hi-1 as one stage.
func (c *stageSearch) footprint(lo, hi int) search.Footprint {
	f, err := c.meter.measure(lo, hi, nil)
	if err != nil {
		return search.Footprint{} // the search stops
	}
	return search.Footprint{Fixed: total(f.fixed), PerFlight: f.perFlight}
}

// mostSimulated is the most microbatches that are simulated: beyond them, the
// bottleneck decides.
const mostSimulated = 24

// simulate is the time of a step.
func (c *stageSearch) simulate(w search.Way) float64 {
	microbatches := min(c.o.pipeline.microbatches, mostSimulated)
	s, err := c.o.pipeline.scheduleOn(w.Devices, microbatches)
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
			return c.o.speeds.copySeconds(bytes[cut], w.Devices[from.Stage], w.Devices[to.Stage])
		},
	})
	if more := c.o.pipeline.microbatches - microbatches; more > 0 {
		return line.Makespan + float64(more)*w.Seconds/float64(c.o.pipeline.microbatches)
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
	return c.o.predict(c.result(w, nil), min(c.o.pipeline.microbatches, mostSimulated))
}

// perLaunch is the time from one action to the next. Measured times include it.
func (c *stageSearch) perLaunch() float64 {
	if c.measured {
		return 0
	}
	return overhead
}

// result turns a way into a cut.
func (c *stageSearch) result(w search.Way, fewer *Fewer) cut {
	n, blocks := len(w.Begins), len(c.blocks)
	out := cut{blocks: c.blocks, stageOf: make([]int, blocks), device: w.Devices, cause: make([]string, n), fewer: fewer}
	for stage, lo := range w.Begins {
		hi := blocks
		if stage+1 < n {
			hi = w.Begins[stage+1]
		}
		for i := lo; i < hi; i++ {
			out.stageOf[i] = stage
		}
		refused := c.elsewhere(w.Devices[stage], lo, hi)
		out.refused = append(out.refused, refused...)
		out.cause[stage] = c.cause(w, stage, lo, hi)
		if refused != nil {
			out.cause[stage] += "; " + strings.Join(refused, "; ")
		}
		out.cause[stage] += sharing(w.Devices, stage, c.o.devices)
		if fewer != nil {
			out.cause[stage] += "; " + fewer.String()
		}
	}
	return out
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
		why += fmt.Sprintf(", %s is the device that suits best (%d ways were compared)", c.o.devices[d].ID, w.Tried)
	case w.Reordered:
		why += ", the only way that fits"
	}
	return why
}

// elsewhere says why blocks lo to hi-1 are not on other kinds of devices than d's.
func (c *stageSearch) elsewhere(d, lo, hi int) (lines []string) {
	kinds := map[string]bool{c.o.devices[d].Kind: true}
	for e, spec := range c.o.devices {
		i := slices.IndexFunc(c.refused[e][lo:hi], func(err error) bool { return err != nil })
		if i >= 0 && !kinds[spec.Kind] {
			kinds[spec.Kind] = true
			lines = append(lines, fmt.Sprintf("%s does not run %s: %s", spec.ID, c.blocks[lo+i], whyNot(c.refused[e][lo+i])))
		}
	}
	return lines
}
