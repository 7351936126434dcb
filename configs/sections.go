package configs

import (
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"

	"go.yaml.in/yaml/v3"
)

// A section is a kind of value too: a mapping, or the scalar it is short for.

func (s *section) expect() string {
	keys := s.keys
	if s.selector != nil {
		keys, _ = s.active(noChoice)
	}
	out := "a mapping with keys such as " + keys[0].name
	if s.shorthand != "" {
		out += ", or the value of " + s.shorthand + " alone"
	}
	if s.list != "" {
		out += ", or a list for " + s.list + " alone"
	}
	return out
}

// noChoice is no variant's name.
const noChoice = "\x00"

// encode gives the mapping of a struct, or the list that stands for it. Keys that
// have no default and were not given are left out, and next to a list also those
// with their defaults.
func (s *section) encode(src any, keep func(*key) bool) *yaml.Node {
	out := &yaml.Node{Kind: yaml.MappingNode}
	keys, _ := s.active(s.choice(src))
	zero := func(k *key) bool {
		if p, ok := k.kind.(partKind); ok {
			return p.isZero(k.at(src))
		}
		return reflect.ValueOf(k.at(src)).Elem().IsZero()
	}
	listed := s.list != "" && slices.ContainsFunc(keys, func(k *key) bool { return k.name == s.list && !zero(k) })
	for _, k := range keys {
		field := k.at(src)
		replaced := k.unless != "" && slices.ContainsFunc(keys, func(other *key) bool { return other.name == k.unless && !zero(other) })
		absent := zero(k) && (listed && k.name == s.shorthand || k.def == "" && !k.required || replaced)
		if sub := k.section(); !keep(k) || absent && (sub == nil || sub.optional) {
			continue
		}
		value := k.kind.encode(field, keep)
		if listed && k.name != s.list && value.Kind == yaml.ScalarNode && value.Value == k.def {
			continue
		}
		out.Content = append(out.Content, plain(k.name), value)
	}
	if listed && len(out.Content) == 2 && out.Content[0].Value == s.list {
		return out.Content[1]
	}
	return out
}

// decode fills the struct from a mapping; a nil node gives the defaults.
func (s *section) decode(d *decoder, n *yaml.Node, path string, dst any) {
	given := map[string]entry{}
	if n != nil {
		*s.pos(dst) = d.pos(n)
		full := s.expand(n)
		d.origin[full], n = d.origin[n], full
		if n.Kind != yaml.MappingNode {
			d.mismatch(n, path, s.expect())
			return
		}
		given = entries(d, n, path)
	}
	choice, ok := s.decodeSelector(d, given, path, dst, n)
	if !ok {
		return
	}
	keys, _ := s.active(choice)
	s.begin(choice, dst)
	for _, k := range keys {
		if k != s.selector {
			decodeKey(d, k, given, path, dst, n)
		}
	}
	s.refuseUnknown(d, keys, choice, given, path)
	s.finish(d, choice, n, path, dst)
}

// entries reads a mapping's keys; a key given twice counts once.
func entries(d *decoder, n *yaml.Node, path string) map[string]entry {
	out := make(map[string]entry, len(n.Content)/2)
	for i := 0; i+1 < len(n.Content); i += 2 {
		k, v := n.Content[i], n.Content[i+1]
		if k.Kind != yaml.ScalarNode {
			d.fail(d.pos(k), path, "a key must be a word, got %s", describe(k))
			continue
		}
		if first, twice := out[k.Value]; twice {
			advice := "remove one"
			if first.value.Kind == yaml.MappingNode && v.Kind == yaml.MappingNode {
				advice = "put the keys of both into one"
			}
			d.fail(d.pos(k), join(path, k.Value), "given twice, first on line %d; %s", first.key.Line, advice)
			continue
		}
		out[k.Value] = entry{k, v}
	}
	return out
}

// expand gives the mapping that a lone scalar, a list or nothing stands for.
func (s *section) expand(n *yaml.Node) *yaml.Node {
	switch {
	case n != nil && n.Kind == yaml.SequenceNode && s.list != "":
		return &yaml.Node{Kind: yaml.MappingNode, Line: n.Line, Content: []*yaml.Node{strAt(s.list, n.Line), n}}
	case n == nil || n.Kind != yaml.ScalarNode:
		return n
	case isNull(n):
		return &yaml.Node{Kind: yaml.MappingNode, Line: n.Line}
	case s.shorthand != "":
		return &yaml.Node{Kind: yaml.MappingNode, Line: n.Line, Content: []*yaml.Node{strAt(s.shorthand, n.Line), n}}
	}
	return n
}

// decodeSelector decodes the selector and gives the variant's name. If the
// selector is wrong, no other key can be judged, and ok is false.
func (s *section) decodeSelector(d *decoder, given map[string]entry, path string, dst any, n *yaml.Node) (choice string, ok bool) {
	if s.selector == nil {
		return "", true
	}
	if s.refuseMissing(d, given, path) {
		return "", false
	}
	before := len(d.faults)
	decodeKey(d, s.selector, given, path, dst, n)
	return s.choice(dst), len(d.faults) == before
}

// decodeKey decodes the value that was given for a key, or its default.
func decodeKey(d *decoder, k *key, given map[string]entry, path string, dst any, n *yaml.Node) {
	at := join(path, k.name)
	e, ok := given[k.name]
	ok = ok && !(k.blank && isNull(e.value) && d.pos(e.value).Line > 0)
	sub := k.section()
	nested := sub != nil
	switch {
	case ok && isNull(e.value) && !nested:
		d.fail(d.posOf(e), at, "has no value, expected %s", k.kind.expect())
	case ok:
		d.where[at] = d.pos(e.value)
		k.kind.decode(d, e.value, at, k.at(dst))
	case k.required && n != nil:
		d.fail(d.pos(n), at, "missing, expected %s", missing(k))
	case nested && !sub.optional:
		k.kind.decode(d, nil, at, k.at(dst))
	case k.def != "" && given[k.unless].value == nil:
		k.kind.decode(d, defaultNode(k.def), at, k.at(dst))
	}
}

// defaultNode parses a key's default. Every default is valid YAML.
func defaultNode(def string) *yaml.Node {
	if n, ok := parsedDefaults.Load(def); ok {
		return copied(n.(*yaml.Node))
	}
	var doc yaml.Node
	if err := yaml.Unmarshal([]byte(def), &doc); err != nil {
		panic("BUG: default " + def + ": " + err.Error())
	}
	parsedDefaults.Store(def, copied(doc.Content[0]))
	return doc.Content[0]
}

// parsedDefaults has the nodes of defaults: each config that is read needs most of them.
var parsedDefaults sync.Map

// copied is a tree without anchors that shares nothing with n.
func copied(n *yaml.Node) *yaml.Node {
	c := *n
	c.Content = nil
	for _, child := range n.Content {
		c.Content = append(c.Content, copied(child))
	}
	return &c
}

// refuseUnknown reports the given keys that the variant does not have.
func (s *section) refuseUnknown(d *decoder, keys []*key, choice string, given map[string]entry, path string) {
	var extra []entry
	for name, e := range given {
		if !slices.ContainsFunc(keys, func(k *key) bool { return k.name == name }) {
			extra = append(extra, e)
		}
	}
	slices.SortFunc(extra, func(a, b entry) int { return (a.key.Line-b.key.Line)<<20 + a.key.Column - b.key.Column })
	for i, e := range extra {
		name, why := e.key.Value, "unknown key"
		if i < maxErrors { // no more are printed, and advice takes time
			why = s.whyUnknown(d, name, keys, choice)
		}
		if _, err := strconv.ParseUint(name, 10, 64); err == nil && e.value.ShortTag() == "!!null" {
			why = "a comma separates keys: write a decimal point, as in 0." + name
		}
		d.fail(d.pos(e.key), join(path, name), "%s", why)
	}
}

// whyUnknown tells a key of another variant from one that does not exist.
func (s *section) whyUnknown(d *decoder, name string, keys []*key, choice string) string {
	if s.selector == nil {
		return "unknown key" + s.suggest(d, name, keys)
	}
	for _, v := range s.rows() {
		if v.name == "" && slices.ContainsFunc(v.keys, func(k *key) bool { return k.name == name }) {
			return fmt.Sprintf("%s and %s exclude each other; give one of the two", name, s.selector.name)
		}
	}
	now := s.selector.name + " is " + choice
	if choice == "" {
		now = s.selector.name + " is not given"
	}
	if owners := s.owners(name); len(owners) > 0 {
		return fmt.Sprintf("goes with %s: %s, but %s; expected one of %s", s.selector.name, list(owners), now, list(names(keys)))
	}
	return fmt.Sprintf("unknown key where %s%s", now, s.suggest(d, name, keys))
}

// suggest names the key that an unknown one may mean. In this order: the key whose whole path
// it is; the keys of that name in other sections; a near key here; a near key of another variant;
// a near key anywhere. If none is near, it lists the keys that are known here.
func (s *section) suggest(d *decoder, name string, here []*key) string {
	var paths []string // of the keys that can be meant in other sections
	if !s.listed {
		paths = d.paths()
	}
	if dot := strings.LastIndexByte(name, '.'); dot > 0 && slices.Contains(paths, name) {
		return fmt.Sprintf("; write %s in the section %s: names are joined by dots only outside files", name[dot+1:], name[:dot])
	}
	same := slices.DeleteFunc(slices.Clone(paths), func(path string) bool { return !strings.HasSuffix(path, "."+name) })
	if len(same) > 0 {
		return didYouMeanOneOf(same)
	}
	if nearest(name, names(here)) == "" {
		if near := nearest(name, names(s.all())); len(s.owners(near)) > 0 {
			return fmt.Sprintf("; did you mean %q, which goes with %s: %s?", near, s.selector.name, list(s.owners(near)))
		}
		if near := keysNear(name, paths); len(near) > 0 {
			return didYouMeanOneOf(near)
		}
	}
	return didYouMean(name, names(here))
}

// missing describes the value to give for a required key.
func missing(k *key) string {
	switch e := k.kind.(type) {
	case enum:
		return e.expectNear("")
	case choice:
		return e.words().expectNear("")
	}
	if k.doc == "" {
		return k.kind.expect()
	}
	return k.kind.expect() + ": " + k.doc
}
