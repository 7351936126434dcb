package ops

import (
	"fmt"
	"reflect"
	"slices"

	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/engine/registry"
	"github.com/berth-ml/berth/engine/shape"
)

// Register adds ops of a program, each with a version of at least 1 under its Kind.
// Runs keep the versions of the ops that they use, and refuse others: raise it where
// the numbers change. An op is a struct whose fields print as their contents (numbers,
// strings, and arrays, slices and structs of them), with the methods of [graph.Op] and
// of either [graph.Computer] or [graph.Mapper]. Register belongs in an init function,
// and panics where an op cannot be added.
func Register(version int, list ...graph.Op) {
	for _, op := range list {
		if err := registrable(op); err != nil {
			panic(fmt.Sprintf("register op %s: %v", op.Kind(), err))
		}
		registry.Add(registry.Entry{Kind: registry.Op, Name: op.Kind(), Version: version}, func() { table = append(table, op) })
	}
}

// registrable says why an op of a program cannot be one.
func registrable(op graph.Op) error {
	_, computes := op.(graph.Computer)
	_, maps := op.(graph.Mapper)
	switch {
	case computes == maps:
		return fmt.Errorf("it must have a method Compute or a method Map, and not both: see graph.Computer and graph.Mapper")
	case slices.ContainsFunc(table, func(o graph.Op) bool { return o.Kind() == op.Kind() }):
		return fmt.Errorf("the name exists already: choose another")
	}
	return printable(reflect.TypeOf(op))
}

// printable says why values of a type do not print as their contents. Ops that print
// alike count as one.
func printable(t reflect.Type) error {
	for _, own := range []reflect.Type{reflect.TypeFor[fmt.Stringer](), reflect.TypeFor[fmt.Formatter](), reflect.TypeFor[error]()} {
		if t.Implements(own) {
			return fmt.Errorf("%v has a method %s, which may hide its contents: remove it, or give it another name", t, own.Method(0).Name)
		}
	}
	switch t.Kind() {
	case reflect.Array, reflect.Slice:
		return printable(t.Elem())
	case reflect.Struct:
		for i := range t.NumField() {
			if err := printable(t.Field(i).Type); err != nil {
				return fmt.Errorf("field %s: %w", t.Field(i).Name, err)
			}
		}
		return nil
	case reflect.Pointer, reflect.UnsafePointer, reflect.Func, reflect.Chan, reflect.Interface, reflect.Map:
		return fmt.Errorf("it is a %v, which does not print as its contents: use a struct of numbers and strings", t)
	}
	return nil
}

// SameMeta is the metadata rule of elementwise ops: n float32 inputs of one shape, and
// one output like them.
func SameMeta(in []shape.Meta, n int) ([]shape.Meta, error) {
	if err := floats(in, n); err != nil {
		return nil, err
	}
	for _, m := range in[1:] {
		if !m.Equal(in[0]) {
			return nil, fmt.Errorf("inputs are %v and %v, expected one shape", in[0], m)
		}
	}
	return one(in[0]), nil
}

// CostPerElement is the cost of an op that takes that many operations for each element
// of its first output.
func CostPerElement(flops int, in, out []shape.Meta) graph.Cost {
	return perElem(flops, out[0].Elems(), in, out)
}

// NoGradient is the gradient of ops that have none: differentiating one is an error.
func NoGradient(b *graph.Builder, n *graph.Node) []*graph.Value {
	b.Fail(fmt.Errorf("%w: the loss cannot be differentiated through %s: training takes gradients once, of the loss", ErrNoGradient, n.Op.Kind()))
	return noGrad(n)
}
