package cut

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/internal/edit"
	"github.com/berth-ml/berth/partition/nodes"
	"github.com/berth-ml/berth/partition/pieces"
)

// cutByHand is the cut that Stages lists. Every block must be in
// exactly one stage.
func cutByHand(blocks []string, o Options) (Cut, error) {
	o.Stages = inPieces(o.Stages, blocks, o.Pieces)
	c := Cut{Blocks: blocks, StageOf: make([]int, len(blocks)), Device: o.Pipeline.Deal(len(o.Stages))}
	for i := range c.StageOf {
		c.StageOf[i] = -1
	}
	for s, names := range o.Stages {
		if len(names) == 0 {
			return Cut{}, fmt.Errorf("%w: stage %d has no blocks; name at least one of %s", ErrStages, s, strings.Join(o.Pieces.Blocks(blocks), ", "))
		}
		for _, name := range names {
			i := slices.Index(blocks, name)
			if i < 0 {
				return Cut{}, fmt.Errorf("%w: stage %d names a block %q that the model does not have%s; it has %s", ErrStages, s, name, nearest(name, blocks), strings.Join(o.Pieces.Blocks(blocks), ", "))
			}
			if c.StageOf[i] >= 0 {
				return Cut{}, fmt.Errorf("%w: block %q is in stage %d and again in stage %d; name it once", ErrStages, name, c.StageOf[i], s)
			}
			c.StageOf[i] = s
		}
	}
	if len(o.Stages) == 0 {
		return Cut{}, fmt.Errorf("%w: the list of stages is empty; leave it out to place automatically", ErrStages)
	}
	if err := c.pin(o); err != nil {
		return Cut{}, err
	}
	if err := missingBlocks(c); err != nil {
		return Cut{}, err
	}
	for s := range o.Stages {
		c.Cause = append(c.Cause, cmp.Or(o.Why, "by hand")+pinned(o, o.Stages[s]))
	}
	return c.apart(o), nil
}

// inPieces names, in lists of stages, the pieces of a block in its place.
func inPieces(stages [][]string, blocks []string, p pieces.Pieces) [][]string {
	if len(p) == 0 {
		return stages
	}
	out := make([][]string, len(stages))
	for s, names := range stages {
		for _, name := range names {
			if slices.Contains(blocks, name) {
				out[s] = append(out[s], name)
				continue
			}
			before := len(out[s])
			for _, b := range blocks {
				if p.Whole(b) == name {
					out[s] = append(out[s], b)
				}
			}
			if len(out[s]) == before {
				out[s] = append(out[s], name) // it is refused by name
			}
		}
	}
	return out
}

// pin puts stages on the devices that their blocks are pinned to.
func (c *Cut) pin(o Options) error {
	if len(o.Pin) == 0 {
		return nil
	}
	c.Device = slices.Clone(c.Device)
	for s, names := range o.Stages {
		first := ""
		for _, name := range names {
			d, ok := o.on(name)
			if ok && first != "" && d != o.Pin[first] {
				second := o.Pieces.Whole(name)
				return AsPin(second, fmt.Errorf("stage %d has block %q, which is pinned to %s, and %q, which is pinned to %s; put them in different stages (partition.stages), or pin them to one device",
					s, first, o.Devices[o.Pin[first]].ID, second, o.Devices[d].ID))
			}
			if ok {
				first, c.Device[s] = o.Pieces.Whole(name), d
			}
		}
	}
	return nil
}

// on is the device that a block, or the block of a piece, is pinned to. A pinned op has its own.
func (o *Options) on(block string) (d int, ok bool) {
	if _, own := o.Ops[block]; own {
		return 0, false
	}
	d, ok = o.Pin[o.Pieces.Whole(block)]
	return d, ok
}

// CheckPins refuses pins of blocks that there are not. pins has devices by their IDs, of which the plan may lack some.
func CheckPins(g *graph.Graph, p pieces.Pieces, pins map[string]string) error {
	blocks := p.Blocks(nodes.Blocks(g))
	for _, name := range slices.Sorted(maps.Keys(pins)) {
		if !slices.Contains(blocks, name) && !p.Is(name) {
			return AsPin(name, fmt.Errorf("%q is pinned to %s, but the model has no such block or op%s", name, pins[name], nearBy(g, p, name, blocks)))
		}
	}
	return nil
}

// nearBy says what a name may be meant for: the nearest one, the blocks, and the ops of what the name begins like. Where
// these are many, it is those nearest to the name.
func nearBy(g *graph.Graph, p pieces.Pieces, name string, blocks []string) string {
	const few = 6
	are, ops := opsNear(g, p, name)
	text := nearest(name, append(slices.Clone(ops), blocks...)) + "; its blocks are " + strings.Join(blocks, ", ")
	switch {
	case len(ops) > few:
		return fmt.Sprintf("%s; of the %d ops %s the nearest are %s (--op-by-op=log names all)", text, len(ops), are, strings.Join(mostAlike(name, ops, few), ", "))
	case len(ops) > 0:
		return fmt.Sprintf("%s; the ops %s are %s", text, are, strings.Join(ops, ", "))
	}
	return text
}

// mostAlike are the few names that are most like one, in their order.
func mostAlike(name string, names []string, few int) []string {
	name = name[:min(len(name), edit.LongestWord)]
	sorted := slices.Clone(names)
	slices.SortStableFunc(sorted, func(a, b string) int { return edit.Distance(name, a) - edit.Distance(name, b) })
	sorted = sorted[:few]
	return slices.DeleteFunc(slices.Clone(names), func(x string) bool { return !slices.Contains(sorted, x) })
}

// opsNear are the ops of the layer or block whose name is the longest beginning of a name that may be meant for one of them,
// or those that begin so. A layer with loops has none that can be pinned.
func opsNear(g *graph.Graph, p pieces.Pieces, name string) (are string, ops []string) {
	are, ops = opsOf(g, p, name)
	for dot := strings.LastIndex(name, "."); dot > 0 && len(ops) == 0; dot = strings.LastIndex(name[:dot], ".") {
		are, ops = opsOf(g, p, name[:dot])
	}
	return are, ops
}

// opsOf are the ops of a block, which pins of others may have cut into pieces, of a layer, or else those whose names begin so.
func opsOf(g *graph.Graph, p pieces.Pieces, name string) (are string, ops []string) {
	var block, layer, begin []string
	for _, n := range g.Nodes {
		l, op := n.Layer, n.Out[0].Name
		if n.Phase != graph.Forward || nodes.BlockOf(l) == "" || l.Iterations > 0 {
			continue
		}
		if p.Whole(l.Block) == name {
			block = append(block, op)
		}
		if l.Name == name {
			layer = append(layer, op)
		}
		if strings.HasPrefix(op, name+".") {
			begin = append(begin, op)
		}
	}
	switch {
	case len(block) > len(layer):
		return "of block " + name, block
	case len(layer) > 0:
		return "of layer " + name, layer
	}
	return "that begin with " + name, begin
}

// pinned names the blocks that are pinned, for the cause of their stage.
func pinned(o Options, blocks []string) string {
	var names []string
	for _, b := range blocks {
		if _, ok := o.on(b); ok && !slices.Contains(names, o.Pieces.Whole(b)) {
			names = append(names, o.Pieces.Whole(b))
		}
	}
	return arePinned(names)
}

// arePinned says of what it names that it is pinned.
func arePinned(names []string) string {
	switch len(names) {
	case 0:
		return ""
	case 1:
		return ", " + names[0] + " is pinned here"
	}
	return ", " + strings.Join(names, " and ") + " are pinned here"
}

func missingBlocks(c Cut) error {
	var missing []string
	for i, s := range c.StageOf {
		if s < 0 {
			missing = append(missing, c.Blocks[i])
		}
	}
	if len(missing) > 0 {
		return fmt.Errorf("%w: no stage names %s; every block must be in one", ErrStages, strings.Join(missing, ", "))
	}
	return nil
}

// nearest suggests the name with the smallest distance, "" if none is near.
func nearest(name string, names []string) string {
	best := edit.Nearest(name, names, len(name)/2+1)
	if best == "" {
		return ""
	}
	return fmt.Sprintf(" (nearest: %q)", best)
}
