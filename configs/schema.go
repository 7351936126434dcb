package configs

import (
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/berth-ml/berth/engine/registry"
)

// A kind is a type of value. It reads, writes and describes its values.
type kind interface {
	// decode checks the node and stores its value in *dst, or reports a fault.
	decode(d *decoder, n *yaml.Node, path string, dst any)
	// encode gives the node that decode turns back into *src; of a struct, only
	// the keys that keep accepts.
	encode(src any, keep func(*key) bool) *yaml.Node
	// expect describes the valid values, as in "expected a whole number".
	expect() string
}

// A partKind is a kind whose values are some of a struct's fields: *dst is the struct.
type partKind interface {
	kind
	isZero(src any) bool
}

// A section is a mapping of the config. It has keys of its own and, if it has a
// selector, the keys of the variant that the selector's value names. Decoding,
// defaults, checks, YAML, the reference page, flags and suggestions all read
// these tables.
type section struct {
	doc       string
	pos       func(any) *Pos // the position field of the struct that this section fills
	selector  *key           // the key whose value names the variant; nil for none
	keys      []*key         // the keys that every variant has
	variants  []variant
	shorthand string // the key that a lone scalar stands for; "" for none
	list      string // the key that a list stands for, with which keys that are zero are not written; "" for none
	optional  bool   // the section may be missing as a whole: it has no defaults then, and is not written
	listed    bool   // the section is an item of a list: it cannot mean keys of other sections

	// names is the kind of names in the registry that are variants, behind those that are
	// listed here; "" for none. registered finds the part of the section's struct that their
	// keys fill.
	names      registry.Kind
	registered func(any) *Registered
	extra      func(registry.Entry) []*key // keys that such a name has in addition to its own; nil: none
	registeredRows
}

// A variant holds the keys that come with one value of the selector.
type variant struct {
	name string // "" for a selector that is not given
	doc  string
	keys []*key
}

// A key is an entry of a section.
type key struct {
	name     string
	kind     kind
	at       func(any) any // gives a pointer to the field of the section's struct
	def      string        // default as YAML; "" leaves the zero value
	required bool
	free     bool   // the numbers of a run do not depend on it
	inData   bool   // it is free to the config, and what follows from it is part of the data's fingerprint
	kept     bool   // it is free, and what a run leaves depends on it: where it ends, its metrics, its snapshots. See [Config.Outcome]
	unless   string // the key in whose place it stands: it has no default, and is not written, where that is given
	blank    bool   // an empty value in a file means the default: some run folders hold one
	flag     string // the trainer's flag that sets it; "" for none
	// flagTakes is the flag's value in help, such as SIZE; bool for a switch.
	flagTakes string
	// flagTrains: only the commands that train have the flag. flagAlone is its value where
	// it is given without one; "" for flags that need one.
	flagTrains bool
	flagAlone  string
	doc        string
}

// with gives the key with another doc.
func with(k key, doc string) *key {
	k.doc = doc
	return &k
}

// optional gives the key with another default.
func optional(k key, def string) *key {
	k.def, k.required = def, false
	return &k
}

// at binds a key to a field.
func at[S, F any](f func(*S) *F) func(any) any {
	return func(s any) any { return f(s.(*S)) }
}

// posOf binds a section to its struct's position field.
func posOf[S any](f func(*S) *Pos) func(any) *Pos {
	return func(s any) *Pos { return f(s.(*S)) }
}

// active lists the keys of the chosen variant in the order in which they are
// written: the selector, the section's own, the variant's. ok is false if no
// variant has the name; the list is then without the variant's.
func (s *section) active(choice string) (keys []*key, ok bool) {
	if s.selector == nil {
		return s.keys, true
	}
	keys = append(keys, s.selector)
	keys = append(keys, s.keys...)
	if v := s.row(choice); v != nil {
		return append(keys, v.keys...), true
	}
	return keys, false
}

// row is the variant of that name; nil if there is none.
func (s *section) row(name string) *variant {
	rows := s.rows()
	for i := range rows {
		if rows[i].name == name {
			return &rows[i]
		}
	}
	return nil
}

// choices lists the values of the selector.
func (s *section) choices() []string {
	var names []string
	for _, v := range s.rows() {
		if v.name != "" {
			names = append(names, v.name)
		}
	}
	return names
}

// owners lists the variants that have the key.
func (s *section) owners(name string) []string {
	var names []string
	for _, v := range s.rows() {
		for _, k := range v.keys {
			if k.name == name && v.name != "" {
				names = append(names, v.name)
			}
		}
	}
	return names
}

// all lists the keys of all variants; a name may occur more than once.
func (s *section) all() []*key {
	keys, _ := s.active("")
	for _, v := range s.rows() {
		if v.name != "" {
			keys = append(keys, v.keys...)
		}
	}
	return keys
}

// choice gives the selector's value in the struct.
func (s *section) choice(src any) string {
	if s.selector == nil {
		return ""
	}
	return *s.selector.at(src).(*string)
}

// A leaf is a key that is no section, with its dotted path. Flags and variables
// set leaves.
type leaf struct {
	path string
	key  *key
	list *leaf // of the path of a section that a list can stand for: the key that the list is of
}

// of gives the leaf that text sets: another one for a list.
func (l leaf) of(text string) leaf {
	if l.list != nil && strings.HasPrefix(strings.TrimSpace(text), "[") {
		return *l.list
	}
	return l
}

// leaves adds the leaves of the section to out, by dotted path. The path of a
// section with a shorthand maps to the keys that a scalar and a list stand for.
func (s *section) leaves(prefix string, out map[string]leaf) map[string]leaf {
	for _, k := range s.all() {
		path := prefix + k.name
		if sub := k.section(); sub != nil {
			sub.leaves(path+".", out)
			if short, ok := out[path+"."+sub.shorthand]; ok {
				if list, ok := out[path+"."+sub.list]; ok {
					short.list = &list
				}
				out[path] = short
			}
		} else if _, seen := out[path]; !seen {
			out[path] = leaf{path: path, key: k}
		}
	}
	return out
}

// section gives the section that the key is; nil if it is none.
func (k *key) section() *section {
	s, _ := k.kind.(*section)
	return s
}

// child gives the section of that name, nil if the key is no section.
func (s *section) child(name string) *section {
	for _, k := range s.all() {
		if k.name == name {
			return k.section()
		}
	}
	return nil
}

// names lists the names of keys.
func names(keys []*key) []string {
	out := make([]string, len(keys))
	for i, k := range keys {
		out[i] = k.name
	}
	return out
}
