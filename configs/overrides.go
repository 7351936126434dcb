package configs

import (
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"
)

// An override is a value from outside the file.
type override struct {
	text   string // as it was given
	origin string // the flag or variable, as messages name it
}

// put writes an override into the tree, where decoding finds it.
func put(d *decoder, root *yaml.Node, lf leaf, from override) {
	parts := strings.Split(lf.path, ".")
	last := len(parts) - 1
	in := descend(root, parts[:last], func() *yaml.Node {
		n := &yaml.Node{Kind: yaml.MappingNode}
		d.origin[n] = from.origin
		return n
	})
	value, err := parseOverride(lf.key, from.text)
	if err != nil {
		d.fail(Pos{File: from.origin}, lf.path, "%v", err)
		return
	}
	if in == nil {
		return
	}
	d.mark(value, from.origin)
	if old := lookUp(in, parts[last]); old != nil {
		*old = *value
		d.origin[old] = from.origin
		return
	}
	name := str(parts[last])
	d.origin[name] = from.origin
	in.Content = append(in.Content, name, value)
}

// dropOthers removes, where an override chooses another variant of a section than the
// file, the keys that go with the file's choice alone: a saved config has them all, and
// they say nothing about the new one.
func dropOthers(root *yaml.Node, lf leaf, text string) {
	parts := strings.Split(lf.path, ".")
	last := len(parts) - 1
	s := rootSection
	for _, name := range parts[:last] {
		if s = s.child(name); s == nil {
			return
		}
	}
	in := descend(root, parts[:last], nil)
	if s.selector != lf.key || in == nil {
		return
	}
	old := lookUp(in, parts[last])
	if old == nil || old.Value == text {
		return
	}
	before, _ := s.active(old.Value)
	after, ok := s.active(text)
	if !ok {
		return
	}
	for _, k := range before {
		if !slices.ContainsFunc(after, func(other *key) bool { return other.name == k.name }) {
			removeKey(in, k.name)
		}
	}
}

// removeKey removes a key of a mapping, if it is there.
func removeKey(in *yaml.Node, name string) {
	for i := 0; i+1 < len(in.Content); i += 2 {
		if in.Content[i].Value == name {
			in.Content = slices.Delete(in.Content, i, i+2)
			return
		}
	}
}

// descend gives the mapping at a path of sections. On the way it expands
// shorthands in place. A section that is not there is made by make; without
// make, descend gives nil. It gives nil too where a section's value is no
// mapping, which decoding reports.
func descend(root *yaml.Node, path []string, make func() *yaml.Node) *yaml.Node {
	n, s := root, rootSection
	for _, name := range path {
		s = s.child(name)
		next := lookUp(n, name)
		if next == nil {
			if make == nil {
				return nil
			}
			next = make()
			n.Content = append(n.Content, strAt(name, next.Line), next)
		}
		if next.Kind != yaml.MappingNode {
			alone := *next
			*next = *s.expand(&alone)
		}
		if next.Kind != yaml.MappingNode {
			return nil
		}
		n = next
	}
	return n
}

// parseOverride reads an override's text: as it is for a text, else as YAML. In
// brackets, a text may be a list.
func parseOverride(k *key, given string) (*yaml.Node, error) {
	if !utf8.ValidString(given) {
		return nil, fmt.Errorf("got %q, which is not UTF-8 text, as all text of a config is", given)
	}
	if t, ok := k.kind.(text); ok {
		if t.listed && strings.HasPrefix(given, "[") {
			if n, err := readYAML("", []byte(given)); err == nil && n.Kind == yaml.SequenceNode {
				return n, nil
			}
		}
		return str(given), nil
	}
	if _, word := k.kind.(fieldWord); word && given == "" {
		return str(""), nil // as without the key
	}
	if strings.TrimSpace(given) == "" {
		return nil, fmt.Errorf("has no value, expected %s", k.kind.expect())
	}
	n, err := readYAML("", []byte(given))
	if err != nil {
		return nil, fmt.Errorf("got %q, expected %s", given, k.kind.expect())
	}
	return n, nil
}
