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
	switch {
	case slices.Contains(taken, m.Name):
		panic("register metric " + m.Name + ": the name means something else in train.metrics or in metrics.jsonl: choose another")
	case slices.ContainsFunc(table, func(o Metric) bool { return o.Name == m.Name }):
		panic("register metric " + m.Name + ": the name exists already: choose another")
	case slices.ContainsFunc(families, numbered):
		panic("register metric " + m.Name + ": names of the form top_N are taken: choose another")
	case m.Value == nil:
		panic("register metric " + m.Name + ": it has no Value: give it a function")
	}
	m.register(registry.Add)
}

// builtIn is Register for the metrics of this package, which have no version.
func builtIn(m Metric) { m.register(registry.BuiltIn) }

func (m Metric) register(add func(registry.Entry, func())) {
	add(registry.Entry{Kind: registry.Metric, Name: m.Name, Version: m.Version, Doc: m.Doc}, func() {
		table = append(table, m)
		slices.SortFunc(table, func(a, b Metric) int {
			return registry.Compare(registry.Metric, a.Name, a.Version, b.Name, b.Version)
		})
	})
}

// builtInFamily adds metrics with a number in their name.
func builtInFamily(f family) { families = append(families, f) }
