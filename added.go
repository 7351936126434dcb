package berth

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/berth-ml/berth/checkpoint"
	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/engine/registry"
)

// opsPrint is the fingerprint of the ops that the program has added, such as "swish 1
// swish_grad 1". Runs without any have none. Other added names are in the config.
const opsPrint = "ops"

// addedOps is the fingerprint of a graph's ops.
func addedOps(g *graph.Graph) string {
	var list []string
	for _, n := range g.Nodes {
		if !graph.BringsKernel(n.Op) {
			continue
		}
		e, _ := registry.Find(registry.Op, n.Op.Kind())
		if text := fmt.Sprintf("%s %d", n.Op.Kind(), e.Version); !slices.Contains(list, text) {
			list = append(list, text)
		}
	}
	slices.Sort(list)
	return strings.Join(list, " ")
}

// otherOps says that a checkpoint was computed with another version of an added op than
// the program has, or with one that it lacks; "" where neither is so.
func otherOps(m *checkpoint.Manifest) string {
	list := strings.Fields(m.Fingerprints[opsPrint])
	for pair := range slices.Chunk(list, 2) {
		if len(pair) < 2 {
			break
		}
		e, has := registry.Find(registry.Op, pair[0])
		switch {
		case !has:
			return fmt.Sprintf("this run uses the op %s version %s, which this program does not have", pair[0], pair[1])
		case strconv.Itoa(e.Version) != pair[1]:
			return fmt.Sprintf("this run uses the op %s version %s; this program has version %d", pair[0], pair[1], e.Version)
		}
	}
	return ""
}
