package segment

import (
	"strings"

	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/executor/schedule"
)

// running has the letters of the passes in the order in which a stage runs them.
const running = "FBWRU"

// passOrder is a pass's place in running.
func passOrder(k schedule.Kind) int { return strings.IndexByte(running, byte(k)) }

// Passes is a set of passes.
type Passes uint8

// Has reports whether k is in the set.
func (s Passes) Has(k schedule.Kind) bool { return s>>passOrder(k)&1 != 0 }

// String is the passes' letters in running order: "FBU".
func (s Passes) String() string {
	var b strings.Builder
	for i := range len(running) {
		if k := schedule.Kind(running[i]); s.Has(k) {
			b.WriteByte(byte(k))
		}
	}
	return b.String()
}

// PassOf is the pass of a node that a launch in pass k runs: the update may run
// together with the backward pass, and this with the forward pass.
func PassOf(n *graph.Node, k schedule.Kind) schedule.Kind {
	switch {
	case n.Phase == graph.Forward:
		return schedule.Forward
	case n.Phase == graph.Update:
		return schedule.Update
	case k == schedule.Weights:
		return schedule.Weights
	}
	return schedule.Backward
}
