package configs

import (
	"fmt"
	"slices"

	"go.yaml.in/yaml/v3"

	"github.com/berth-ml/berth/engine/registry"
)

// layerList is a list of layers.
type layerList struct{}

func (layerList) expect() string { return "a list of at least one layer" }

func (l layerList) decode(d *decoder, n *yaml.Node, path string, dst any) {
	if n.Kind != yaml.SequenceNode || len(n.Content) == 0 {
		d.mismatch(n, path, l.expect())
		return
	}
	out := make([]Layer, len(n.Content))
	for i, c := range n.Content {
		at, full := fmt.Sprintf("%s[%d]", path, i), typed(c)
		if full == nil {
			d.fail(d.pos(c), at, "got %s for %s, expected its keys: {type: %s, …}, or %s: {…}", describe(c.Content[1]), c.Content[0].Value, c.Content[0].Value, c.Content[0].Value)
			continue
		}
		d.origin[full] = d.origin[c]
		layerSection.decode(d, full, at, &out[i])
	}
	*dst.(*[]Layer) = out
}

// typed expands a layer that is written under its type: `residual: [...]` to
// `{type: residual, layers: [...]}`, and `dense: {units: 3}` to `{type: dense,
// units: 3}`. A word that is no key counts as a type, which is refused as one. Other nodes
// stay as they are; nil stands for a type with a number or a word in place of its keys.
func typed(n *yaml.Node) *yaml.Node {
	if n.Kind != yaml.MappingNode || len(n.Content) != 2 {
		return n
	}
	kind, body := n.Content[0], n.Content[1]
	isType := layerSection.row(kind.Value) != nil
	switch {
	case isType && body.Kind == yaml.ScalarNode && !isNull(body):
		return nil
	case !isType && (body.Kind == yaml.ScalarNode || layerKey(kind.Value)):
		return n
	}
	out := &yaml.Node{Kind: yaml.MappingNode, Line: n.Line, Column: n.Column}
	out.Content = append(out.Content, &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: "type", Line: kind.Line}, kind)
	if body.Kind == yaml.SequenceNode {
		layers := &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: "layers", Line: body.Line}
		out.Content = append(out.Content, layers, body)
	} else {
		out.Content = append(out.Content, body.Content...)
	}
	return out
}

// layerKey reports whether a layer of some type has a key of that name.
func layerKey(name string) bool {
	return slices.ContainsFunc(layerSection.all(), func(k *key) bool { return k.name == name })
}

func (layerList) encode(src any, keep func(*key) bool) *yaml.Node {
	out := &yaml.Node{Kind: yaml.SequenceNode}
	layers := *src.(*[]Layer)
	for i := range layers {
		out.Content = append(out.Content, layerSection.encode(&layers[i], keep))
	}
	return out
}

// layerSection is an entry of model.layers. Axes count within a sample, from 0.
var layerSection = chosen(&section{
	doc:        "An entry of `model.layers`. Axes count from 0 within a sample. `- relu` is short for `- {type: relu}`, `- dense: {units: 3}` for `- {type: dense, units: 3}`, and `- residual: [...]` for `- {type: residual, layers: [...]}`.",
	pos:        posOf(func(l *Layer) *Pos { return &l.Pos }),
	shorthand:  "type",
	listed:     true,
	names:      registry.Layer,
	registered: registeredIn(func(l *Layer) *Registered { return &l.Registered }),
	selector:   &key{name: "type", at: at(func(l *Layer) *string { return &l.Type }), required: true, doc: "it decides the other keys"},
	keys: []*key{{name: "name", kind: layerName, at: at(func(l *Layer) *string { return &l.Name }),
		doc: "prefix of its parameters' names, and its name in `partition.stages`; the type and a number unless given"}},
})
