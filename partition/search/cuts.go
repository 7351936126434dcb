package search

import (
	"cmp"
	"math"
	"slices"
	"sort"
)

// mostWays is the most cuts of a line that are kept, and the most ways of all lines
// that are simulated.
const mostWays = 32

// label is one way to put the first blocks on the first stages.
type label struct {
	time   float64 // seconds per microbatch of the busiest worker or link
	cross  int64   // bytes that cross cuts
	uneven float64 // sum of the squares of the stages' seconds: the least where they are equal
	load   float64 // seconds on the last device, if the next stage shares it
	mem    int64   // bytes on the last device, if the next stage shares it
	from   int     // first block of the last stage
	prev   *label
}

// beats reports whether a label is at least as good in everything.
func (l *label) beats(o *label) bool {
	return l.time <= o.time && l.cross <= o.cross && l.uneven <= o.uneven && l.load <= o.load && l.mem <= o.mem
}

// cuts is the dynamic program for a line. A state is a number of stages and of blocks on them; its labels
// are the ways to get there that may still be part of the best cut. [Best] owns it; lines share what is
// known of footprints.
type cuts struct {
	*Problem
	*line
	foot         map[[2]int]Footprint // by first block and block after the last
	alternatives bool                 // look for many cuts, not only for the best
}

// best are the fastest cuts that fit, best first; the fastest of all if none fits.
//
// Measuring the memory of a stage takes much longer than its time. So it looks for
// cuts within a bound on the busiest worker: first the least possible one, then
// wider ones. A cut that fits within a bound is at least as fast as all beyond it.
// In a chain that is not long, the next bound is looked at for its alternatives.
func (c *cuts) best() (ways []Way, fits bool) {
	block := 0.0
	for i := range c.blocks() {
		for _, d := range c.devices {
			if t := c.seconds(i, i+1, d); !math.IsInf(t, 1) {
				block = max(block, t)
			}
		}
	}
	for _, fit := range []bool{true, false} {
		for _, slack := range []float64{1, 1.05, 1.2, 1.5, 2, 4, math.Inf(1)} {
			found := c.within(fit, c.line.least*slack)
			if len(found) == 0 {
				continue
			}
			if c.blocks() > mostBlocks || !fit {
				return c.ways(found[:1], fit), fit
			}
			c.alternatives = true
			return c.ways(append(found[:1], c.within(true, found[0].time+block)...), true), true
		}
	}
	return nil, false
}

// mostBlocks is the most blocks of a chain whose slower cuts are looked at, too.
const mostBlocks = 400

// within are the cuts with no worker busier than the bound, best first. ways[hi] has the labels of the first
// hi blocks on the stages so far. Each stage makes the next list of them: one that ends before block hi
// begins at a block lo that has labels, and takes blocks lo to hi-1. As hi grows, a stage that begins at a
// low lo takes too long, so lo never goes back.
func (c *cuts) within(fit bool, bound float64) []*label {
	blocks := c.blocks()
	bound *= 1 + 1e-9
	ways := make([][]*label, blocks+1)
	ways[0] = []*label{{}}
	for stage := range c.devices {
		next := make([][]*label, blocks+1)
		from, to := c.ends(stage)
		for hi, lo := from, stage; hi <= to; hi++ {
			if c.Stop.Err() != nil || !c.Begins[hi] || !c.roomBehind(stage, hi, bound) {
				continue
			}
			for lo < hi && (len(ways[lo]) == 0 || c.seconds(lo, hi, c.devices[stage]) > bound) {
				lo++ // nor will it do for a later hi
			}
			for lo := lo; lo < hi; lo++ {
				for _, w := range ways[lo] {
					if l := c.extend(w, stage, lo, hi, fit, bound); l != nil {
						next[hi] = c.add(next[hi], l)
					}
				}
			}
		}
		ways = next
	}
	found := ways[blocks]
	slices.SortStableFunc(found, func(a, b *label) int {
		return cmp.Or(cmp.Compare(a.time, b.time), cmp.Compare(a.cross, b.cross), cmp.Compare(a.uneven, b.uneven))
	})
	return found[:min(len(found), mostWays)]
}

// roomBehind reports whether the stages behind one can take the blocks from hi on.
func (c *cuts) roomBehind(stage, hi int, bound float64) bool {
	for d, l := len(c.devices)-1, c.blocks(); l > hi; d-- { // from the last one, each takes as many as it can
		if d <= stage {
			return false
		}
		x := c.devices[d]
		l -= sort.Search(l-hi, func(i int) bool { return c.seconds(l-i-1, l, x) > bound })
	}
	return true
}

// ends are the blocks before which a stage may end: it has at least one block, and
// so has each stage before and behind it.
func (c *cuts) ends(stage int) (from, to int) {
	from, to = stage+1, c.blocks()-len(c.devices)+stage+1
	if stage == len(c.devices)-1 {
		from = to
	}
	return from, to
}

// extend adds a stage of blocks lo to hi-1, nil if it takes longer than the bound or
// does not fit.
func (c *cuts) extend(w *label, stage, lo, hi int, fit bool, bound float64) *label {
	alone := c.seconds(lo, hi, c.devices[stage])
	load := alone
	mem := int64(0)
	if stage > 0 && c.devices[stage] == c.devices[stage-1] {
		load, mem = load+w.load, w.mem
	}
	time := max(w.time, load, c.linkSeconds(lo, hi, c.line, stage))
	if time > bound {
		return nil
	}
	mem, fits := c.memory(mem, stage, lo, hi)
	if fit && !fits {
		return nil
	}
	l := &label{time: time, cross: w.cross, uneven: w.uneven + alone*alone, from: lo, prev: w}
	if stage > 0 {
		l.cross += c.Cross[lo]
	}
	if stage+1 < len(c.devices) && c.devices[stage+1] == c.devices[stage] {
		l.load, l.mem = load, mem
	}
	return l
}

// memory adds a stage to the bytes on its device, and tells whether they fit. Where
// stages share a device, the bound decides: their exact sums would have to be known for
// every pair of ranges.
func (c *cuts) memory(before int64, stage, lo, hi int) (bytes int64, fits bool) {
	limit, flight := c.Devices[c.devices[stage]].MemoryBytes, c.flight[stage]
	if limit <= 0 {
		return 0, true
	}
	if c.AtMost != nil {
		if bytes = before + c.AtMost(lo, hi).Bytes(flight); bytes <= limit || before > 0 {
			return bytes, bytes <= limit
		}
		if least := c.AtLeast(lo, hi).Bytes(flight); least > limit {
			return least, false
		}
	}
	bytes = before + c.footprint(lo, hi).Bytes(flight)
	return bytes, bytes <= limit
}

// footprint is the memory of blocks lo to hi-1 as one stage.
func (c *cuts) footprint(lo, hi int) Footprint {
	k := [2]int{lo, hi}
	f, known := c.foot[k]
	if !known {
		f = c.Footprint(lo, hi)
		c.foot[k] = f
	}
	return f
}

// add keeps a label unless another is as good in everything, and drops those that it
// is as good as. Looking for alternatives, it keeps the fastest ones instead.
func (c *cuts) add(ways []*label, l *label) []*label {
	if c.alternatives {
		at, _ := slices.BinarySearchFunc(ways, l, faster)
		if at == mostWays {
			return ways
		}
		return slices.Insert(ways[:min(len(ways), mostWays-1)], at, l)
	}
	for _, w := range ways {
		if w.beats(l) {
			return ways
		}
	}
	kept := ways[:0]
	for _, w := range ways {
		if !l.beats(w) {
			kept = append(kept, w)
		}
	}
	return append(kept, l)
}

// faster compares labels of a state.
func faster(a, b *label) int {
	return cmp.Or(cmp.Compare(a.time, b.time), cmp.Compare(a.cross, b.cross), cmp.Compare(a.load, b.load), cmp.Compare(a.uneven, b.uneven))
}

// ways turns labels of all blocks into ways.
func (c *cuts) ways(labels []*label, fits bool) (list []Way) {
	for _, l := range labels {
		list = append(list, c.way(l, fits))
	}
	return list
}

// way turns a label of all blocks into a way.
func (c *cuts) way(l *label, fits bool) Way {
	w := Way{Begins: make([]int, len(c.devices)), Devices: c.devices, Fits: fits, cross: l.cross, uneven: l.uneven}
	for stage := len(c.devices) - 1; stage >= 0; stage-- {
		w.Begins[stage], l = l.from, l.prev
	}
	return w
}
