package configs

import (
	"fmt"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"

	"go.yaml.in/yaml/v3"

	"github.com/berth-ml/berth/engine/registry"
)

// Programs add names to some sections: see package registry. Each becomes a variant
// like the built-in ones, whose keys are the fields of a struct of the program.

// addedTo binds a section to the part of its struct that the keys of added names fill.
func addedTo[S any](f func(*S) *Added) func(any) *Added {
	return func(s any) *Added { return f(s.(*S)) }
}

// rows lists the variants: the built-in ones and then those that the program has added.
func (s *section) rows() []variant {
	if s.addable == "" {
		return s.variants
	}
	s.once.Do(func() {
		s.allRows = s.variants[:len(s.variants):len(s.variants)]
		for _, e := range registry.List(s.addable) {
			s.allRows = append(s.allRows, s.variantOf(e))
		}
	})
	return s.allRows
}

// addedRows is a cache of rows. It is filled at the first use, once the program has
// added its names.
type addedRows struct {
	once    sync.Once
	allRows []variant
}

// variantOf makes the variant of an added name.
func (s *section) variantOf(e registry.Entry) variant {
	v := variant{name: e.Name, doc: e.Doc}
	fields, err := registry.Fields(e.Keys)
	if err != nil {
		panic("BUG: " + err.Error()) // registry.Add has checked them
	}
	if s.beside != nil {
		v.keys = s.beside(e)
	}
	for _, f := range fields {
		if slices.Contains(names(v.keys), f.Name) { // one of those takes its place
			continue
		}
		k := &key{name: f.Name, doc: f.Doc, kind: kindOf(f, reflect.TypeOf(e.Keys).Field(f.Index).Type)}
		k.at = func(src any) any {
			return reflect.ValueOf(keysOf(e, s.added(src).Keys)).Elem().Field(f.Index).Addr().Interface()
		}
		if k.required = !f.Holds(e.Keys); !k.required {
			k.def = textOf(k.kind.encode(reflect.ValueOf(e.New()).Elem().Field(f.Index).Addr().Interface(), nil))
		}
		v.keys = append(v.keys, k)
	}
	v.keys = append(v.keys, &key{name: "version", kind: version{e}, def: strconv.Itoa(e.Version),
		at:  func(src any) any { return &s.added(src).Version },
		doc: fmt.Sprintf("of this %s: a run keeps it, and a program that has another one refuses the run", e.Kind)})
	return v
}

// keysOf is a pointer to the keys of an entry: the given ones, or a copy of the defaults.
func keysOf(e registry.Entry, given any) any {
	switch t := reflect.TypeOf(e.Keys); reflect.TypeOf(given) {
	case reflect.PointerTo(t):
		return given
	case t:
		e.Keys = given
	}
	return e.New()
}

// textOf is a node as YAML on one line.
func textOf(n *yaml.Node) string {
	text, err := yaml.Marshal(n)
	if err != nil {
		panic("BUG: " + err.Error())
	}
	return strings.TrimSpace(string(text))
}

// kindOf is the kind of a field's values.
func kindOf(f registry.Field, t reflect.Type) kind {
	bound := func(p *float64, none float64) float64 {
		if p == nil {
			return none
		}
		return *p
	}
	switch t.Kind() {
	case reflect.Bool:
		return boolean{}
	case reflect.Int:
		return whole{int(math.Ceil(bound(f.Min, -maxDim))), int(bound(f.Max, maxDim))}
	case reflect.Float64:
		return real{min: bound(f.Min, -math.MaxFloat64), max: bound(f.Max, math.MaxFloat64)}
	case reflect.Slice:
		if t.Elem().Kind() == reflect.Int {
			return ints{each: whole{-maxDim, maxDim}}
		}
		return texts{anyText}
	}
	return anyText
}

// begin gives the struct fresh keys before those of an added name are decoded.
func (s *section) begin(name string, dst any) {
	if e, ok := s.entry(name); ok {
		s.added(dst).Keys = e.New()
	}
}

// entry is the added name.
func (s *section) entry(name string) (e registry.Entry, ok bool) {
	if s.addable == "" {
		return e, false
	}
	return registry.Find(s.addable, name)
}

// finish calls the program's check of the keys, unless one of them is wrong by itself.
func (s *section) finish(d *decoder, name string, n *yaml.Node, path string, dst any, faults int) {
	if _, ok := s.entry(name); !ok || n == nil || len(d.faults) > faults {
		return
	}
	if err := registry.Check(s.added(dst).Keys); err != nil {
		d.fail(d.pos(n), path, "%s: %v", name, err)
	}
}

// refuseMissing reports a name with a version that the program lacks: a run's config
// gives both.
func (s *section) refuseMissing(d *decoder, given map[string]entry, path string) (refused bool) {
	name, version := given[s.selector.name].value, given["version"].value
	if s.addable == "" || name == nil || version == nil || s.row(name.Value) != nil {
		return false
	}
	d.fail(d.pos(name), join(path, s.selector.name), "this run uses the %s %s version %s, which this program does not have; use the program that adds it",
		s.addable, name.Value, version.Value)
	return true
}

// version is the version of an added name.
type version struct{ of registry.Entry }

func (v version) expect() string { return fmt.Sprint(v.of.Version) }

func (v version) decode(d *decoder, n *yaml.Node, path string, dst any) {
	got, ok := whole{1, maxDim}.parse(n)
	switch {
	case !ok:
		d.mismatch(n, path, v.expect())
	case got != v.of.Version && !d.anyVersion:
		d.fail(d.pos(n), path, "this run uses the %s %s version %d; this program has version %d; use a program with version %d, or begin another run",
			v.of.Kind, v.of.Name, got, v.of.Version, got)
	}
	*dst.(*int) = got
}

func (version) encode(src any, keep func(*key) bool) *yaml.Node { return whole{}.encode(src, keep) }

// choice is the kind of a selector: the names of the section's variants.
type choice struct{ of *section }

func (c choice) words() enum    { return enum(c.of.choices()) }
func (c choice) expect() string { return c.words().expect() }

func (c choice) decode(d *decoder, n *yaml.Node, path string, dst any) {
	c.words().decode(d, n, path, dst)
}

func (c choice) encode(src any, keep func(*key) bool) *yaml.Node { return enum{}.encode(src, keep) }
