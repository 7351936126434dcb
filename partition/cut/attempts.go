package cut

import (
	"slices"

	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/internal/stop"
	"github.com/berth-ml/berth/partition/search"
)

// best searches for the fastest way. Nodes of the update that can be on any device need
// one that runs them: where the way has none, they stay with the last block.
func (c *stageSearch) best(stages, most int) (search.Way, error) {
	w, err := c.first(stages, most)
	if err != nil || c.runsMovable(w.Devices) {
		return w, err
	}
	c.refused = refusals(c.groups, c.blocks, &c.o, true)
	return c.first(stages, most)
}

// runsMovable reports whether each movable node has a device that runs it.
func (c *stageSearch) runsMovable(devices []int) bool {
	if c.o.Supports == nil {
		return true
	}
	runs := func(n *graph.Node) bool {
		return slices.ContainsFunc(devices, func(d int) bool { return c.o.Supports(d, n) == nil })
	}
	idx := c.groups.Index
	for _, n := range stop.Each(idx.Stop, idx.Graph.Nodes) {
		if idx.Movable(n) && !runs(n) {
			return false
		}
	}
	return true
}

// first is the fastest way of the first attempt that has one.
func (c *stageSearch) first(stages, most int) (search.Way, error) {
	for _, shapes := range c.attempts(stages, most) {
		if w, ok, err := c.among(shapes); ok || err != nil {
			return w, err
		}
	}
	return search.Way{}, c.impossible()
}

// attempts are lists of pipelines, for stages as many as asked for. The first list with a
// way is taken. Pinned blocks may need other numbers of stages, and so may blocks that
// some devices do not run, unless a number is asked for; and both a pipeline that ends
// where it begins. most is the most stages that there can be.
func (c *stageSearch) attempts(stages, most int) [][][]int {
	first := [][]int{c.o.Pipeline.Deal(stages)}
	switch {
	case len(c.o.Pin) > 0:
		for n := 1; n <= most && n <= len(c.o.Devices)+1; n++ {
			if c.o.Count == 0 || n == stages {
				first = append(first, c.others(n, stages)...)
			}
		}
	case c.o.Pipeline.Order != nil || !c.anyRefused():
	case c.o.Count != 0:
		first = append(first, c.others(stages, stages)...)
	default:
		all := [][][]int{first, c.others(min(stages+1, most), stages)}
		for n := stages - 1; n > 0; n-- {
			all = append(all, c.others(n, stages))
		}
		return all
	}
	return [][][]int{first}
}

// others are the pipelines of n stages, except for the first one of attempts.
func (c *stageSearch) others(n, stages int) (shapes [][]int) {
	if n != stages && n <= len(c.o.Devices) {
		shapes = append(shapes, c.o.Pipeline.Deal(n))
	}
	if n > 2 && n <= len(c.o.Devices)+1 {
		there := make([]int, n) // the last is with the first
		for i := range n - 1 {
			there[i] = i
		}
		shapes = append(shapes, there)
	}
	return shapes
}

// anyRefused reports whether a device does not run a block.
func (c *stageSearch) anyRefused() bool {
	for d := range c.refused {
		for _, err := range c.refused[d] {
			if err != nil {
				return true
			}
		}
	}
	return false
}
