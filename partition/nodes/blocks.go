package nodes

import (
	"github.com/berth-ml/berth/engine/graph"
)

// Blocks is pass 1: the names of the top-level layers, in the order of their
// first nodes.
func Blocks(g *graph.Graph) []string {
	var blocks []string
	seen := map[string]bool{}
	for _, n := range g.Nodes {
		if b := BlockOf(n.Layer); b != "" && n.Phase == graph.Forward && !seen[b] {
			seen[b] = true
			blocks = append(blocks, b)
		}
	}
	return blocks
}

func BlockOf(l *graph.Layer) string {
	if l == nil {
		return ""
	}
	return l.Block
}

// OneGroupEach makes each block its own group.
func OneGroupEach(blocks []string) map[string]int {
	m := map[string]int{}
	for i, b := range blocks {
		m[b] = i
	}
	return m
}
