package partition

import "github.com/berth-ml/berth/engine/graph"

// placement is the group (a stage, or while costs are counted a block) of
// every node and variable.
type placement struct {
	groups int
	node   map[int]int    // by Node.ID
	owner  map[string]int // by variable name
}

var _ = graph.Forward
