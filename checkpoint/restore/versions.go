package restore

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/berth-ml/berth/checkpoint"
	"github.com/berth-ml/berth/configs"
	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/engine/registry"
)

// addedOps is the fingerprint of a graph's ops.
func addedOps(g *graph.Graph) string {
	var kinds []string
	for _, n := range g.Nodes {
		if graph.BringsKernel(n.Op) {
			kinds = append(kinds, n.Op.Kind())
		}
	}
	return versions(registry.Op, kinds)
}

// addedMetrics is the fingerprint of the metrics that a config names.
func addedMetrics(c *configs.Config) string {
	return versions(registry.Metric, append(slices.Clone(c.Train.Metrics), configs.MetricOf(c.Checkpoint.Best), configs.MetricOf(c.EarlyStopping.Metric)))
}

// versions lists the added ones among some names, with their versions.
func versions(k registry.Kind, names []string) string {
	slices.Sort(names)
	var list []string
	for _, name := range slices.Compact(names) {
		if e, ok := registry.Find(k, name); ok && e.Version > 0 {
			list = append(list, fmt.Sprintf("%s %d", name, e.Version))
		}
	}
	return strings.Join(list, " ")
}

// otherOps says that a checkpoint was computed with another version of an added op than
// the program has, or with one that it lacks; "" where neither is so.
func otherOps(m *checkpoint.Manifest) string {
	return otherVersion(registry.Op, m.Fingerprints[opsPrint])
}

// otherMetrics is otherOps for the metrics by which the run is judged.
func otherMetrics(m *checkpoint.Manifest) string {
	return otherVersion(registry.Metric, m.Fingerprints[metricsPrint])
}

// otherVersion compares a list of versions with the program's.
func otherVersion(k registry.Kind, then string) string {
	for pair := range slices.Chunk(strings.Fields(then), 2) {
		if len(pair) < 2 {
			break
		}
		e, has := registry.Find(k, pair[0])
		switch {
		case !has:
			return fmt.Sprintf("this run uses the %s %s version %s, which this program does not have: use one that registers it", k, pair[0], pair[1])
		case strconv.Itoa(e.Version) != pair[1]:
			return fmt.Sprintf("this run uses the %s %s version %s; this program has version %d: use a program with version %s", k, pair[0], pair[1], e.Version, pair[1])
		}
	}
	return ""
}
