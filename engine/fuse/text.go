package fuse

import (
	"fmt"
	"strings"

	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/internal/units"
)

// String lists the clusters, the nodes that are alone, and the edges between them. Equal
// ones share a line. Nodes that are alone, and edges, have the reason.
func (c *Cuts) String() string {
	var b strings.Builder
	fused := tally{}
	for _, k := range c.Clusters {
		switch {
		case k.Batch:
			fused.add(k.Name()+" side by side", "")
		case len(k.Nodes) > 1:
			var inner int64
			for _, v := range k.Inner {
				inner += v.Meta.Bytes()
			}
			fused.add(fmt.Sprintf("%s: %v, %s stay inside", k.Name(), k.Frame, units.Bytes(inner)), where(k))
		}
	}
	fused.write(&b)
	if kept := c.Kept(); len(kept) > 0 {
		b.WriteString("alone\n")
		alone := tally{}
		for _, k := range kept {
			alone.add(fmt.Sprintf("%s: %s", k.Node.Op.Kind(), k.Why), layerOf(k.Node))
		}
		alone.write(&b)
	}
	edges := c.Edges()
	if len(edges) == 0 {
		return b.String()
	}
	b.WriteString("not fused\n")
	apart := tally{}
	for _, e := range edges {
		apart.add(fmt.Sprintf("%s -> %s: %s", e.From.Op.Kind(), e.To.Op.Kind(), e.Why), "")
	}
	apart.write(&b)
	return b.String()
}

// where names the layer in which a cluster ends.
func where(k *Cluster) string {
	for i := len(k.Nodes) - 1; i >= 0; i-- {
		if name := layerOf(k.Nodes[i]); name != "" {
			return name
		}
	}
	return ""
}

// layerOf names a node's layer; "" if it has none.
func layerOf(n *graph.Node) string {
	if n.Layer == nil {
		return ""
	}
	return n.Layer.Name
}

// tally counts lines, in the order in which they came first.
type tally struct {
	lines  []string
	count  map[string]int
	layers map[string][]string // by line: where its clusters end
}

func (t *tally) add(line, layer string) {
	if t.count == nil {
		t.count, t.layers = map[string]int{}, map[string][]string{}
	}
	if t.count[line]++; t.count[line] == 1 {
		t.lines = append(t.lines, line)
	}
	if layer != "" {
		t.layers[line] = append(t.layers[line], layer)
	}
}

func (t *tally) write(b *strings.Builder) {
	for _, line := range t.lines {
		fmt.Fprintf(b, "  %3d x %s", t.count[line], line)
		switch layers := t.layers[line]; {
		case len(layers) > 4:
			fmt.Fprintf(b, " (%s ... %s)", layers[0], layers[len(layers)-1])
		case len(layers) > 0:
			fmt.Fprintf(b, " (%s)", strings.Join(layers, ", "))
		}
		b.WriteString("\n")
	}
}
