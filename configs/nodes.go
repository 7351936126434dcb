package configs

import (
	"fmt"
	"strconv"

	"go.yaml.in/yaml/v3"
)

// describe says what a node is, for "got …".
func describe(n *yaml.Node) string {
	switch {
	case n.Kind == yaml.MappingNode:
		return "a mapping"
	case n.Kind == yaml.SequenceNode && len(n.Content) == 0:
		return "an empty list"
	case n.Kind == yaml.SequenceNode:
		return fmt.Sprintf("a list of %d", len(n.Content))
	case isNull(n):
		return "null"
	}
	const longest = 60
	v := n.Value
	if r := []rune(v); len(r) > longest {
		v = string(r[:longest]) + "…"
	}
	if n.ShortTag() == "!!str" {
		return strconv.Quote(v)
	}
	return v
}

func isNull(n *yaml.Node) bool { return n.Kind == yaml.ScalarNode && n.ShortTag() == "!!null" }

// lookUp gives the value of a mapping's key, nil where there is none.
func lookUp(n *yaml.Node, name string) *yaml.Node {
	for i := 0; i+1 < len(n.Content); i += 2 {
		if n.Content[i].Value == name {
			return n.Content[i+1]
		}
	}
	return nil
}

// mappingOf is a copy of a mapping without comments, to be changed; empty for what is none.
func mappingOf(n *yaml.Node) *yaml.Node {
	out := &yaml.Node{Kind: yaml.MappingNode}
	if n != nil && n.Kind == yaml.MappingNode {
		for _, x := range n.Content {
			out.Content = append(out.Content, bare(x))
		}
	}
	return out
}

// bare is a copy of a node without comments and positions.
func bare(n *yaml.Node) *yaml.Node {
	out := &yaml.Node{Kind: n.Kind, Tag: n.Tag, Value: n.Value}
	for _, x := range n.Content {
		out.Content = append(out.Content, bare(x))
	}
	return out
}

// setIn gives a mapping's key a value, which it returns.
func setIn(n *yaml.Node, name string, value *yaml.Node) *yaml.Node {
	for i := 0; i+1 < len(n.Content); i += 2 {
		if n.Content[i].Value == name {
			n.Content[i+1] = value
			return value
		}
	}
	n.Content = append(n.Content, str(name), value)
	return value
}

// plain is a scalar whose type is read from its text.
func plain(v string) *yaml.Node { return &yaml.Node{Kind: yaml.ScalarNode, Value: v} }

// str is a string, quoted where YAML would read it as something else.
func str(v string) *yaml.Node { return strAt(v, 0) }

// strAt is str at a line.
func strAt(v string, line int) *yaml.Node {
	return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: v, Line: line}
}

func float(v float64) *yaml.Node { return plain(strconv.FormatFloat(v, 'g', -1, 64)) }

// flow is a list on one line, [a, b].
func flow(items ...*yaml.Node) *yaml.Node {
	return &yaml.Node{Kind: yaml.SequenceNode, Style: yaml.FlowStyle, Content: items}
}

// strs is a list of strings on one line.
func strs(words []string) *yaml.Node {
	out := flow()
	for _, w := range words {
		out.Content = append(out.Content, str(w))
	}
	return out
}
