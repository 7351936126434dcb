package configs

import (
	"maps"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/berth-ml/berth/engine/registry"
)

// weights are numbers by name, or a word in place of them.
type weights struct {
	words []string
	each  real
}

func (w weights) expect() string {
	return strings.Join(w.words, ", ") + ", or a mapping of names, each with " + w.each.expect()
}

func (w weights) decode(d *decoder, n *yaml.Node, path string, dst any) {
	out := dst.(*registry.Weights)
	*out = registry.Weights{}
	switch {
	case n.Kind == yaml.ScalarNode && slices.Contains(w.words, n.Value):
		out.Word = n.Value
		return
	case n.Kind != yaml.MappingNode || len(n.Content) == 0:
		d.mismatch(n, path, w.expect())
		return
	}
	out.ByName = map[string]float64{}
	given := entries(d, n, path)
	for _, name := range slices.Sorted(maps.Keys(given)) {
		at, v := join(path, name), 0.0
		d.where[at] = d.pos(given[name].value)
		w.each.decode(d, given[name].value, at, &v)
		out.ByName[name] = v
	}
}

func (weights) encode(src any, _ func(*key) bool) *yaml.Node {
	w := src.(*registry.Weights)
	if w.Word != "" {
		return plain(w.Word)
	}
	out := &yaml.Node{Kind: yaml.MappingNode, Style: yaml.FlowStyle}
	for _, name := range slices.Sorted(maps.Keys(w.ByName)) {
		out.Content = append(out.Content, str(name), float(w.ByName[name]))
	}
	return out
}
