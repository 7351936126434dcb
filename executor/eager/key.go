package eager

import (
	"encoding/binary"
	"fmt"
	"reflect"

	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/engine/shape"
)

// appendKey appends the identity of a call: the op as graph.OpString prints it, or the
// function itself, and the metadata of its inputs.
func appendKey(key []byte, op graph.Op, args []*Tensor) []byte {
	key = append(key, op.Kind()...)
	if f, ok := op.(*Function); ok {
		key = fmt.Appendf(key, "%p", f)
	} else {
		key = fmt.Appendf(key, "%+v", op)
	}
	for _, a := range args {
		key = append(key, byte(a.meta.DType))
		key = binary.AppendUvarint(key, uint64(len(a.meta.Shape)))
		for _, d := range a.meta.Shape {
			key = binary.AppendUvarint(key, uint64(d))
		}
	}
	return key
}

// quickKey is the identity of a usual call, made without printing.
type quickKey struct {
	op   graph.Op
	args int
	in   [3]quickMeta
}

// quickMeta is metadata of few axes.
type quickMeta struct {
	dtype shape.DType
	rank  int8
	dims  [4]int
}

// quick makes the quick key of a call; ok is false if it has none. plain tells of
// types of ops whether two are the same op if they are equal.
func quick(op graph.Op, args []*Tensor, plain map[reflect.Type]bool) (k quickKey, ok bool) {
	if k.args = len(args); k.args > len(k.in) || !plain[reflect.TypeOf(op)] {
		return k, false
	}
	k.op = op
	for i, a := range args {
		m := &k.in[i]
		if len(a.meta.Shape) > len(m.dims) {
			return k, false
		}
		m.dtype, m.rank = a.meta.DType, int8(len(a.meta.Shape))
		copy(m.dims[:], a.meta.Shape)
	}
	return k, true
}

// isPlain reports whether equal values of a type print alike. Floats do not: 0 equals
// -0.
func isPlain(t reflect.Type) bool {
	switch t.Kind() {
	case reflect.Bool, reflect.String, reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64,
		reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		return true
	case reflect.Array:
		return isPlain(t.Elem())
	case reflect.Struct:
		for f := range t.Fields() {
			if !isPlain(f.Type) {
				return false
			}
		}
		return true
	}
	return false
}
