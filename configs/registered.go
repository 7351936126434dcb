package configs

import (
	"errors"
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"

	"go.yaml.in/yaml/v3"

	"github.com/berth-ml/berth/engine/registry"
)

// The names of package registry are variants of some sections: those of Berth's own
// layers, losses, optimizers and schedules, and those that a program adds. Their keys are
// the fields of a struct.

// registeredIn binds a section to the part of its struct that such keys fill.
func registeredIn[S any](f func(*S) *Registered) func(any) *Registered {
	return func(s any) *Registered { return f(s.(*S)) }
}

// rows lists the variants: first the section's table, then registered ones.
func (s *section) rows() []variant {
	if s.names == "" {
		return s.variants
	}
	s.once.Do(func() {
		s.allRows = s.variants[:len(s.variants):len(s.variants)]
		for _, e := range registry.List(s.names) {
			s.allRows = append(s.allRows, s.variantOf(e))
		}
	})
	return s.allRows
}

// registeredRows is a cache of rows. It is filled at the first use, once the program has
// added its names.
type registeredRows struct {
	once    sync.Once
	allRows []variant
}

// variantOf makes the variant of a name.
func (s *section) variantOf(e registry.Entry) variant {
	v := variant{name: e.Name, doc: e.Doc}
	fields, err := registry.Fields(e.Keys)
	if err != nil {
		panic("BUG: " + err.Error()) // the registry has checked them
	}
	if s.extra != nil {
		v.keys = s.extra(e)
	}
	for _, f := range fields {
		if !slices.Contains(names(v.keys), f.Name) { // otherwise one of those takes its place
			v.keys = append(v.keys, s.keyOf(e, f))
		}
	}
	if e.Version > 0 {
		v.keys = append(v.keys, &key{name: "version", kind: version{e}, def: strconv.Itoa(e.Version),
			at:  func(src any) any { return &s.registered(src).Version },
			doc: fmt.Sprintf("of this %s: a run keeps it, and a program that has another one refuses the run", e.Kind)})
	}
	return v
}

// keyOf makes the key of a field.
func (s *section) keyOf(e registry.Entry, f registry.Field) *key {
	k := &key{name: f.Name, doc: f.Doc, kind: kindOf(f), required: !f.Holds(e.Keys)}
	if f.Nested {
		k.at = at(func(l *Layer) *[]Layer { return &l.Body })
		return k
	}
	field := func(keys any) any { return reflect.ValueOf(keys).Elem().FieldByIndex(f.Index).Addr().Interface() }
	k.at = func(src any) any {
		keys, _ := e.Pointer(s.registered(src).Keys)
		return field(keys)
	}
	if !k.required && !f.Optional {
		k.def = textOf(k.kind.encode(field(e.New()), nil))
		switch k.kind.(type) {
		case real, pair:
			k.def = exponent.ReplaceAllString(k.def, "${1}e$2")
		}
	}
	return k
}

// exponent finds the end of a number such as 1e-05, of which documents leave out the 0.
var exponent = regexp.MustCompile(`(\d)e(-?)[+0]*`)

// textOf is a node as YAML on one line.
func textOf(n *yaml.Node) string {
	text, err := yaml.Marshal(n)
	if err != nil {
		panic("BUG: " + err.Error())
	}
	return strings.TrimSpace(string(text))
}

// kindOf is the kind of a field's values.
func kindOf(f registry.Field) kind {
	numbers := real{min: f.Min, max: f.Max, over: f.Over, under: f.Under}
	least, most := f.Wholes()
	wholes := whole{least, most}
	switch t := f.Type; {
	case f.Nested:
		return layerList{}
	case f.Inverted:
		return inverted{}
	case f.Type == reflect.TypeFor[registry.Weights]():
		return weights{f.Words, numbers}
	case f.Words != nil:
		return enum(f.Words)
	case f.Word != "":
		return wordOr{f.Word, f.WordIs, wholes}
	case t.Kind() == reflect.Bool:
		return boolean{}
	case t.Kind() == reflect.Int:
		return wholes
	case t.Kind() == reflect.Float64:
		return numbers
	case t.Kind() == reflect.Array:
		return pair{numbers}
	case t.Kind() == reflect.Slice && t.Elem().Kind() == reflect.Int:
		return ints{each: wholes, some: f.Items > 0}
	case t.Kind() == reflect.Slice:
		return texts{anyText}
	}
	return anyText
}

// begin gives the struct fresh keys before those of a registered name are decoded.
func (s *section) begin(name string, dst any) {
	if e, ok := s.entry(name); ok && reflect.TypeOf(e.Keys).NumField() > 0 {
		s.registered(dst).Keys = e.New()
	}
}

// entry is the registered name.
func (s *section) entry(name string) (e registry.Entry, ok bool) {
	if s.names == "" {
		return e, false
	}
	return registry.Find(s.names, name)
}

// finish has the keys check and complete themselves, once all keys of the config are valid
// by themselves.
func (s *section) finish(d *decoder, name string, n *yaml.Node, path string, dst any) {
	if _, ok := s.entry(name); !ok || n == nil {
		return
	}
	d.checks = append(d.checks, func() {
		for _, err := range parts(registry.Settle(s.registered(dst).Keys)) {
			if wrong, ok := errors.AsType[*registry.KeyError](err); ok {
				d.against([]string{join(path, wrong.Key)}, "%s", wrong.Text)
				continue
			}
			d.fail(d.pos(n), path, "%s: %v", name, err)
		}
	})
}

// parts splits an error that joins others.
func parts(err error) []error {
	if all, ok := err.(interface{ Unwrap() []error }); ok {
		return all.Unwrap()
	}
	if err == nil {
		return nil
	}
	return []error{err}
}

// checkKeys refuses keys of another name, which only Go code can give.
func (c *Config) checkKeys() error {
	var wrong error
	check := func(k registry.Kind, name string, given Registered, path string) {
		e, ok := registry.Find(k, name)
		if !ok || wrong != nil {
			return
		}
		if _, fits := e.Pointer(given.Keys); !fits {
			wrong = &Error{Pos: Pos{File: c.Pos.File}, Key: path, Msg: fmt.Sprintf("the keys of %s are a %T; give a %T", name, given.Keys, e.Keys)}
		}
	}
	eachLayer(c.Model.Layers, "model.layers", func(l *Layer, path string) { check(registry.Layer, l.Type, l.Registered, path) })
	check(registry.Loss, c.Loss, c.LossKeys, "loss")
	check(registry.Optimizer, c.Optimizer.Name, c.Optimizer.Registered, "optimizer")
	check(registry.Schedule, c.Schedule.Name, c.Schedule.Registered, "schedule")
	check(registry.Source, c.Data.Source, c.Data.Registered, "data")
	return wrong
}

// refuseMissing reports a name with a version that the program lacks: a run's config
// gives both.
func (s *section) refuseMissing(d *decoder, given map[string]entry, path string) (refused bool) {
	name, version := given[s.selector.name].value, given["version"].value
	if s.names == "" || name == nil || version == nil || s.row(name.Value) != nil {
		return false
	}
	d.fail(d.pos(name), join(path, s.selector.name), "this run uses the %s %s version %s, which this program does not have; use the program that adds it",
		s.names, name.Value, version.Value)
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
