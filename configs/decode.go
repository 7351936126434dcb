package configs

import (
	"fmt"
	"slices"

	"go.yaml.in/yaml/v3"
)

// A decoder reads a tree into structs by the tables and collects what is wrong.
type decoder struct {
	file   string
	origin map[*yaml.Node]string // of nodes that no file holds: the flag or variable
	where  map[string]Pos        // of every key that was given
	faults []*Error
}

// place says where a node was written.
func (d *decoder) place(n *yaml.Node) Pos {
	if o := d.origin[n]; o != "" {
		return Pos{File: o}
	}
	return Pos{File: d.file, Line: n.Line}
}

func (d *decoder) fail(p Pos, path, format string, args ...any) {
	d.faults = append(d.faults, &Error{Pos: p, Key: path, Msg: fmt.Sprintf(format, args...)})
}

// mismatch reports a value that is not what its kind takes.
func (d *decoder) mismatch(n *yaml.Node, path, expected string) {
	d.fail(d.place(n), path, "got %s, expected %s", describe(n), expected)
}

// entry is a key of a mapping and its value.
type entry struct{ key, value *yaml.Node }

// entries reads a mapping's keys; a key given twice counts once.
func (d *decoder) entries(n *yaml.Node, path string) map[string]entry {
	out := make(map[string]entry, len(n.Content)/2)
	for i := 0; i+1 < len(n.Content); i += 2 {
		k, v := n.Content[i], n.Content[i+1]
		if k.Kind != yaml.ScalarNode {
			d.fail(d.place(k), path, "a key must be a word, got %s", describe(k))
			continue
		}
		if first, twice := out[k.Value]; twice {
			d.fail(d.place(k), join(path, k.Value), "given twice, first on line %d; remove one", first.key.Line)
			continue
		}
		out[k.Value] = entry{k, v}
	}
	return out
}

func join(path, name string) string {
	if path == "" {
		return name
	}
	return path + "." + name
}

// decode fills the struct from a mapping; a nil node gives the defaults.
func (s *section) decode(d *decoder, n *yaml.Node, path string, dst any) {
	given := map[string]entry{}
	if n != nil {
		*s.pos(dst) = d.place(n)
		full := s.expand(n)
		d.origin[full], n = d.origin[n], full
		if n.Kind != yaml.MappingNode {
			d.mismatch(n, path, s.expect())
			return
		}
		given = d.entries(n, path)
	}
	choice, ok := s.selectVariant(d, given, path, dst, n)
	if !ok {
		return
	}
	keys, _ := s.active(choice)
	for _, k := range keys {
		if k != s.selector {
			s.decodeKey(d, k, given, path, dst, n)
		}
	}
	s.unknown(d, keys, choice, given, path)
}

// expand gives the mapping that a lone scalar or nothing stands for.
func (s *section) expand(n *yaml.Node) *yaml.Node {
	switch {
	case n == nil || n.Kind != yaml.ScalarNode:
		return n
	case isNull(n):
		return &yaml.Node{Kind: yaml.MappingNode, Line: n.Line}
	case s.shorthand != "":
		k := &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: s.shorthand, Line: n.Line}
		return &yaml.Node{Kind: yaml.MappingNode, Line: n.Line, Content: []*yaml.Node{k, n}}
	}
	return n
}

func (s *section) expect() string {
	out := "a mapping"
	if s.shorthand != "" {
		out += " or its " + s.shorthand
	}
	keys := s.keys
	if s.selector != nil {
		keys, _ = s.active(noChoice)
	}
	return out + " with keys such as " + keys[0].name
}

// noChoice is no variant's name.
const noChoice = "\x00"

// selectVariant decodes the selector. Where that fails nothing can be said
// about the other keys, and ok is false.
func (s *section) selectVariant(d *decoder, given map[string]entry, path string, dst any, n *yaml.Node) (string, bool) {
	if s.selector == nil {
		return "", true
	}
	before := len(d.faults)
	s.decodeKey(d, s.selector, given, path, dst, n)
	return s.choice(dst), len(d.faults) == before
}

// decodeKey decodes a key that was given, or its default.
func (s *section) decodeKey(d *decoder, k *key, given map[string]entry, path string, dst any, n *yaml.Node) {
	at := join(path, k.name)
	e, ok := given[k.name]
	_, nested := k.kind.(*section)
	switch {
	case ok && isNull(e.value) && !nested:
		d.fail(d.place(e.key), at, "has no value, expected %s", k.kind.expect())
	case ok:
		d.where[at] = d.place(e.value)
		k.kind.decode(d, e.value, at, k.at(dst))
	case k.required && n != nil:
		d.fail(d.place(n), at, "missing, expected %s", k.expect())
	case nested:
		k.kind.decode(d, nil, at, k.at(dst))
	case k.def != "":
		k.kind.decode(d, defaultNode(k.def), at, k.at(dst))
	}
}

// defaultNode parses a key's default. Defaults are YAML by a test.
func defaultNode(def string) *yaml.Node {
	var doc yaml.Node
	if err := yaml.Unmarshal([]byte(def), &doc); err != nil {
		panic("BUG: default " + def + ": " + err.Error())
	}
	return doc.Content[0]
}

// unknown reports the given keys that the variant does not have.
func (s *section) unknown(d *decoder, keys []*key, choice string, given map[string]entry, path string) {
	var extra []entry
	for name, e := range given {
		if !slices.ContainsFunc(keys, func(k *key) bool { return k.name == name }) {
			extra = append(extra, e)
		}
	}
	slices.SortFunc(extra, func(a, b entry) int { return (a.key.Line-b.key.Line)<<20 + a.key.Column - b.key.Column })
	for _, e := range extra {
		name := e.key.Value
		d.fail(d.place(e.key), join(path, name), "%s", s.whyUnknown(name, keys, choice))
	}
}

// whyUnknown tells a key of another variant from one that does not exist.
func (s *section) whyUnknown(name string, keys []*key, choice string) string {
	if s.selector == nil {
		return "unknown key" + didYouMean(name, names(keys))
	}
	for _, v := range s.variants {
		if v.name == "" && slices.ContainsFunc(v.keys, func(k *key) bool { return k.name == name }) {
			return fmt.Sprintf("%s cannot stand beside %s; give one of the two", name, s.selector.name)
		}
	}
	now := s.selector.name + " is " + choice
	if choice == "" {
		now = s.selector.name + " is not given"
	}
	if owners := s.owners(name); len(owners) > 0 {
		return fmt.Sprintf("goes with %s: %s, but %s; expected one of %s", s.selector.name, list(owners), now, list(names(keys)))
	}
	return fmt.Sprintf("unknown key where %s%s", now, didYouMean(name, names(keys)))
}
