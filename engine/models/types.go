package models

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/berth-ml/berth/engine/registry"
)

// layerType is a type of layer.
type layerType struct {
	name         string
	takes        Intake
	positionwise bool
	ours         bool // it is none of a program's
	// keys completes a layer of the type, and refuses one whose keys are not valid.
	keys func(l any) (Layer, error)
	// with makes a layer of keys and the layers inside.
	with func(keys any, body Stack) (Layer, error)
}

// The types of layers, by name and by the Go type of their keys.
var (
	types  = map[string]*layerType{}
	byKeys = map[reflect.Type]*layerType{}
)

// LayerType is a type of layer that configs know. Keys is the struct of its keys, as
// [registry.Fields] takes it: its method Build makes it a [Layer].
type LayerType[Keys Layer] struct {
	Name    string
	Version int    // at least 1; runs keep it, and refuse another one: raise it where the numbers change
	Doc     string // a sentence for lists
	// Defaults are the keys that are not given. A method Check() error of Keys can refuse
	// values, and a method Resolve() of *Keys set those that follow from others.
	Defaults Keys
	Takes    Intake // the input that it accepts; zero: Numbers
	// Positionwise: of a sequence [B,T,…], it works on each position alone, whatever T
	// is. Only then does a model with this layer generate text, or take samples of
	// different lengths.
	Positionwise bool
	Moves        bool // it computes no number, but moves them
}

// RegisterLayer adds a type of layer, for configs. It belongs in an init function, and
// panics where the type cannot be added.
func RegisterLayer[Keys Layer](t LayerType[Keys]) { t.register(registry.Add) }

// builtIn is RegisterLayer for the types of this package, which have no version.
func builtIn[Keys Layer](t LayerType[Keys]) { t.register(registry.BuiltIn) }

func (t LayerType[Keys]) register(add func(registry.Entry, func())) {
	of := reflect.TypeFor[Keys]()
	if o := byKeys[of]; o != nil {
		panic(fmt.Sprintf("register layer %s: its keys are those of layer %s: give it a struct of its own", t.Name, o.name))
	}
	fields, _ := registry.Fields(t.Defaults) // which the registry checks
	for _, f := range fields {
		if f.Nested && f.Type != reflect.TypeFor[Stack]() {
			panic(fmt.Sprintf("register layer %s: its layers, field %s, are a %v: use models.Stack", t.Name, f.Field, f.Type))
		}
	}
	row := &layerType{
		name: t.Name, takes: t.Takes, positionwise: t.Positionwise, ours: t.Version == 0,
		keys: func(l any) (Layer, error) { return registry.KeysOf(l, t.Defaults) },
		with: t.with,
	}
	if row.takes == (Intake{}) {
		row.takes = Numbers
	}
	e := registry.Entry{Kind: registry.Layer, Name: t.Name, Version: t.Version, Doc: t.Doc, Keys: t.Defaults, Moves: t.Moves}
	add(e, func() { types[t.Name], byKeys[of] = row, row })
}

// with makes a layer of keys and the layers inside.
func (t LayerType[Keys]) with(given any, body Stack) (Layer, error) {
	keys := t.Defaults
	switch g := given.(type) {
	case nil:
	case Keys:
		keys = g
	case *Keys:
		keys = *g
	default:
		return keys, fmt.Errorf("its keys are a %T: give a %T", given, keys)
	}
	if body == nil {
		return keys, nil
	}
	fields, err := registry.Fields(keys)
	for _, f := range fields {
		if f.Nested {
			reflect.ValueOf(&keys).Elem().FieldByIndex(f.Index).Set(reflect.ValueOf(body))
		}
	}
	return keys, err
}

// listed is the names of a table in alphabetical order.
func listed[T any](table map[string]T) string {
	return strings.Join(slices.Sorted(maps.Keys(table)), ", ")
}
