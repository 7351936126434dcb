package models

import (
	"fmt"
	"reflect"
	"regexp"
	"strings"

	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/engine/registry"
)

// Layer is a layer of a model, as Go code writes it: a struct such as [Dense], whose fields
// are the layer's keys in a config. Zeros that are no valid value mean the key's default.
//
// A struct of a program with this method is a layer, too. [RegisterLayer] makes it one in
// configs.
type Layer interface {
	// Build appends the nodes of one such layer to x, whose first axis is the samples of
	// a microbatch, and gives its output, with the same first axis.
	Build(b *Builder, x *graph.Value) *graph.Value
}

// Named is a layer with a name, and with its place in a config.
type Named struct {
	Name  string // unique; the prefix of its variables. Empty: type and index
	Block string // the top-level layer it belongs to. Empty: its own
	Pos   graph.Pos
	Layer Layer
}

// Build builds the layer under its name.
func (n Named) Build(b *Builder, x *graph.Value) *graph.Value { return Stack{n}.Build(b, x) }

// Type is the layer's type: its name in configs, or for others that of its Go type.
func (n Named) Type() string { return typeOf(n.Layer).name }

// Stack is layers, one after the other: a model, or the layers inside another one.
type Stack []Layer

// Build builds one layer after the other.
func (s Stack) Build(b *Builder, x *graph.Value) *graph.Value {
	return b.c.stack(s, b.Layer().Block, x)
}

// Each visits the layers in order, and those inside a layer after it.
func (s Stack) Each(visit func(n Named)) {
	for _, l := range s {
		n := placed(l)
		visit(n)
		inside(n.Layer).Each(visit)
	}
}

// Func is a layer that is a function, such as a part of a model with several ways
// through it.
type Func func(b *Builder, x *graph.Value) *graph.Value

// Build calls the function.
func (f Func) Build(b *Builder, x *graph.Value) *graph.Value { return f(b, x) }

// ByName is the layer of a type that configs know, with the keys of a config: the type's
// struct, a pointer to one, or nil for the defaults. body are the layers inside it. A
// mistake is an error of the model's graphs.
func ByName(name string, keys any, body Stack) Layer {
	t, known := types[name]
	if !known {
		return wrong{name, fmt.Errorf("no layer type %q: there are %s", name, listed(types))}
	}
	l, err := t.with(keys, body)
	if err != nil {
		return wrong{name, err}
	}
	return l
}

// wrong is a layer that cannot be.
type wrong struct {
	name string
	err  error
}

func (w wrong) Build(b *Builder, x *graph.Value) *graph.Value { return x }

// placed is a layer with its name and place. A pointer to a layer counts as the layer.
func placed(l Layer) Named {
	n, named := l.(Named)
	if !named {
		n = Named{Layer: l}
	}
	if inner, twice := n.Layer.(Named); twice {
		inner.Name, inner.Block = either(n.Name, inner.Name), either(n.Block, inner.Block)
		if n.Pos != (graph.Pos{}) {
			inner.Pos = n.Pos
		}
		return placed(inner)
	}
	if v, ok := registry.Value(n.Layer).(Layer); ok {
		n.Layer = v
	}
	return n
}

func either(a, b string) string {
	if a != "" {
		return a
	}
	return b
}

// inside is the layers inside a layer, nil for none.
func inside(l Layer) Stack {
	if x, ok := l.(interface{ inside() Stack }); ok {
		return x.inside()
	}
	return nil
}

func (s Stack) inside() Stack { return s }

// typeOf is the type of a layer.
func typeOf(l Layer) *layerType {
	switch l := l.(type) {
	case nil:
		return &layerType{name: "nil", keys: func(any) (Layer, error) { return nil, fmt.Errorf("it is nil: give it a layer, such as models.Dense") }}
	case wrong:
		return &layerType{name: l.name, keys: func(any) (Layer, error) { return nil, l.err }}
	case Func:
		if l == nil {
			return &layerType{name: "func", keys: func(any) (Layer, error) { return nil, fmt.Errorf("the function is nil: give it one") }}
		}
	case Stack:
		return &layerType{name: "stack", ours: true, positionwise: true, keys: asItIs}
	}
	if t := byKeys[reflect.TypeOf(l)]; t != nil {
		return t
	}
	return &layerType{name: goName(l), keys: asItIs}
}

func asItIs(l any) (Layer, error) { return l.(Layer), nil }

// goName is the Go name of a layer that is not registered, as names of layers are
// written: two_ways of TwoWays.
func goName(l Layer) string {
	t := reflect.TypeOf(l)
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	name := strings.ToLower(capital.ReplaceAllString(t.Name(), "${1}_$2"))
	if name == "" {
		return "layer"
	}
	return name
}

var capital = regexp.MustCompile(`([a-z0-9])([A-Z])`)
