package partition

import (
	"fmt"
	"slices"
	"strings"

	"github.com/berth-ml/berth/engine/device"
	"github.com/berth-ml/berth/engine/graph"
)

// findBlocks is pass 1: the names of the top-level layers, by first
// appearance.
func findBlocks(g *graph.Graph) []string {
	var blocks []string
	seen := map[string]bool{}
	for _, n := range g.Nodes {
		if b := blockOf(n.Layer); b != "" && n.Phase == graph.Forward && !seen[b] {
			seen[b] = true
			blocks = append(blocks, b)
		}
	}
	return blocks
}

func blockOf(l *graph.Layer) string {
	if l == nil {
		return ""
	}
	return l.Block
}

// groups is the stage of each block by name.
func (c cut) groups() map[string]int {
	m := map[string]int{}
	for i, b := range c.blocks {
		m[b] = c.stageOf[i]
	}
	return m
}

// dealDevices gives each of n stages a device; neighbours share one where
// there are fewer devices than stages.
func dealDevices(n, devices int) []int {
	d := make([]int, n)
	for s := range d {
		d[s] = s * min(n, devices) / n
	}
	return d
}

// chooseCut is pass 3: by hand as asked, or automatic.
func chooseCut(idx *index, blocks []string, o PlanOptions, stop func() error) (cut, error) {
	if o.Stages != nil {
		return cutByHand(blocks, o)
	}
	return cutAutomatically(idx, blocks, o, stop)
}

func cutByHand(blocks []string, o PlanOptions) (cut, error) {
	c := cut{blocks: blocks, stageOf: make([]int, len(blocks)), device: dealDevices(len(o.Stages), len(o.Devices))}
	for i := range c.stageOf {
		c.stageOf[i] = -1
	}
	for s, names := range o.Stages {
		if len(names) == 0 {
			return cut{}, fmt.Errorf("%w: stage %d has no blocks; name at least one of %s", ErrStages, s, strings.Join(blocks, ", "))
		}
		for _, name := range names {
			i := slices.Index(blocks, name)
			if i < 0 {
				return cut{}, fmt.Errorf("%w: stage %d names a block %q that the model does not have%s; it has %s", ErrStages, s, name, nearest(name, blocks), strings.Join(blocks, ", "))
			}
			if c.stageOf[i] >= 0 {
				return cut{}, fmt.Errorf("%w: block %q is in stage %d and again in stage %d; name it once", ErrStages, name, c.stageOf[i], s)
			}
			c.stageOf[i] = s
		}
		c.cause = append(c.cause, "by hand"+sharing(c.device, s, o.Devices))
	}
	if len(o.Stages) == 0 {
		return cut{}, fmt.Errorf("%w: the list of stages is empty; leave it out to place automatically", ErrStages)
	}
	return c, missingBlocks(c)
}

func missingBlocks(c cut) error {
	var missing []string
	for i, s := range c.stageOf {
		if s < 0 {
			missing = append(missing, c.blocks[i])
		}
	}
	if len(missing) > 0 {
		return fmt.Errorf("%w: no stage names %s; every block must be in one", ErrStages, strings.Join(missing, ", "))
	}
	return nil
}

// sharing says which other stages are on the device of stage s.
func sharing(devices []int, s int, specs []device.Spec) string {
	var with []string
	for t, d := range devices {
		if t != s && d == devices[s] {
			with = append(with, fmt.Sprint(t))
		}
	}
	if len(with) == 0 {
		return ""
	}
	return fmt.Sprintf(", shares %s with stage %s", specs[devices[s]].ID, strings.Join(with, ", "))
}

// nearest suggests the name that is fewest edits away, if it is near.
func nearest(name string, names []string) string {
	best, at := "", len(name)/2+2
	for _, n := range names {
		if d := edits(name, n); d < at {
			best, at = n, d
		}
	}
	if best == "" {
		return ""
	}
	return fmt.Sprintf(" (nearest: %q)", best)
}

// edits is the Levenshtein distance.
func edits(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := 1
			if a[i] == b[j] {
				cost = 0
			}
			diagonal, row[j+1] = row[j+1], min(diagonal+cost, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}
