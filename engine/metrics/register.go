package metrics

import (
	"slices"
	"strings"

	"github.com/berth-ml/berth/engine/registry"
)

// taken are words of train.metrics, and behind val_ fields of metrics.jsonl.
var taken = []string{"all", "auto", "loss", "s"}

// Register adds a metric of the program. Its Version is at least 1: runs keep it, and
// refuse another one. It belongs in an init function, and panics where the metric cannot
// be added.
func Register(m Metric) {
	numbered := func(f family) bool { return strings.HasPrefix(m.Name, f.prefix) }
	known := func(o Metric) bool { return o.Name == m.Name }
	switch {
	case slices.Contains(taken, m.Name):
		panic("register metric " + m.Name + ": the name means something else in train.metrics or in metrics.jsonl: choose another")
	case slices.ContainsFunc(table, known):
		panic("register metric " + m.Name + ": the name exists already: choose another")
	case slices.ContainsFunc(families, numbered):
		panic("register metric " + m.Name + ": names that begin so stand for numbered classes: choose another")
	case m.Value == nil:
		panic("register metric " + m.Name + ": it has no Value: give it a function")
	}
	registry.Add(registry.Entry{Kind: registry.Metric, Name: m.Name, Version: m.Version, Doc: m.Doc}, func() { table = append(table, m) })
}
