package configs

import "go.yaml.in/yaml/v3"

// A kind is a type of value: how it is read, written and described.
type kind interface {
	// decode checks the node and stores it in *dst, or reports what is wrong.
	decode(d *decoder, n *yaml.Node, path string, dst any)
	// encode gives the node that decode turns into the same value.
	encode(src any, keep func(*key) bool) *yaml.Node
	// expect describes the values, as in "expected a whole number".
	expect() string
}

// A section is a mapping of the config: its keys, and keys that depend on the
// value of one of them, the selector. Decoding, defaults, checks, YAML, the
// reference page, flags and the nearest key all read these tables.
type section struct {
	doc       string
	pos       func(any) *Pos // of the struct that this section fills
	selector  *key           // nil, or the key whose value picks the variant
	keys      []*key         // of every variant
	variants  []variant
	shorthand string // the key that a lone scalar stands for, "" for none
}

// A variant is the keys that come with one value of the selector.
type variant struct {
	name string // "" where the selector is not given
	doc  string
	keys []*key
}

// A key is an entry of a section.
type key struct {
	name     string
	kind     kind
	at       func(any) any // pointer to the struct's field
	def      string        // default as YAML; "" leaves the zero value
	required bool
	free     bool   // does not decide the numbers a run computes
	flag     string // the flag of the trainer that sets it
	doc      string
}

// with gives the key a text of its own.
func with(k key, doc string) *key {
	k.doc = doc
	return &k
}

// optional gives the key a default.
func optional(k key, def string) *key {
	k.def, k.required = def, false
	return &k
}

// at binds a key to a field.
func at[S, F any](f func(*S) *F) func(any) any {
	return func(s any) any { return f(s.(*S)) }
}

// posOf binds a section to the field that says where it was written.
func posOf[S any](f func(*S) *Pos) func(any) *Pos {
	return func(s any) *Pos { return f(s.(*S)) }
}

// active gives the keys that may stand beside the selector's value, in the
// order in which they are written. ok is false where no variant has the name.
func (s *section) active(choice string) (keys []*key, ok bool) {
	if s.selector == nil {
		return s.keys, true
	}
	keys = append(keys, s.selector)
	keys = append(keys, s.keys...)
	for i := range s.variants {
		if s.variants[i].name == choice {
			return append(keys, s.variants[i].keys...), true
		}
	}
	return keys, false
}

// choices lists the variants that the selector can name.
func (s *section) choices() []string {
	var names []string
	for _, v := range s.variants {
		if v.name != "" {
			names = append(names, v.name)
		}
	}
	return names
}

// owners lists the variants that have the key.
func (s *section) owners(name string) []string {
	var names []string
	for _, v := range s.variants {
		for _, k := range v.keys {
			if k.name == name && v.name != "" {
				names = append(names, v.name)
			}
		}
	}
	return names
}

// all gives every key of every variant; a name may come more than once.
func (s *section) all() []*key {
	keys, _ := s.active("")
	for _, v := range s.variants {
		if v.name != "" {
			keys = append(keys, v.keys...)
		}
	}
	return keys
}

// choice reads the selector's value out of the struct.
func (s *section) choice(src any) string {
	if s.selector == nil {
		return ""
	}
	return *s.selector.at(src).(*string)
}

// A leaf is a key that flags and variables can set, with its dotted path.
type leaf struct {
	path string
	key  *key
}

// leaves maps the dotted path of each key below the section to it, and the
// path of a section with a shorthand to the key that this stands for.
func (s *section) leaves(prefix string, out map[string]leaf) map[string]leaf {
	for _, k := range s.all() {
		path := prefix + k.name
		if sub, ok := k.kind.(*section); ok {
			sub.leaves(path+".", out)
			if short, ok := out[path+"."+sub.shorthand]; ok {
				out[path] = short
			}
		} else if _, seen := out[path]; !seen {
			out[path] = leaf{path, k}
		}
	}
	return out
}

// child gives the section of a key, nil where it is none.
func (s *section) child(name string) *section {
	for _, k := range s.all() {
		if k.name == name {
			sub, _ := k.kind.(*section)
			return sub
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
