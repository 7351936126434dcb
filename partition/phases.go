package partition

import (
	"strings"

	"github.com/berth-ml/berth/engine/graph"
)

// Phases is a set of phases.
type Phases uint8

// Has reports whether p is in the set.
func (s Phases) Has(p graph.Phase) bool { return s>>p&1 != 0 }

// String is the phases' letters in running order: "FBU".
func (s Phases) String() string {
	var b strings.Builder
	for p, letter := range []string{"F", "B", "U"} {
		if s.Has(graph.Phase(p)) {
			b.WriteString(letter)
		}
	}
	return b.String()
}
