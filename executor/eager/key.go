package eager

import (
	"encoding/binary"
	"fmt"
	"math"
	"reflect"

	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/internal/panics"
)

// keyOf is appendKey. A panic of the program's own code is an error: the caller holds mu.
func keyOf(room []byte, op graph.Op, args []Tensor) (key []byte, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = panicked(op, panics.Text(r))
		}
	}()
	return appendKey(room, op, args), nil
}

// panicked is the error of an op whose methods panic.
func panicked(op graph.Op, text string) error {
	return fmt.Errorf("%w: the op %T panicked: %s", graph.ErrShape, op, text)
}

// kindOf is an op's kind for an error; that of an op whose method panics is its type.
func kindOf(op graph.Op) (kind string) {
	defer func() {
		if recover() != nil {
			kind = fmt.Sprintf("%T", op)
		}
	}()
	return op.Kind()
}

// appendKey appends the identity of a call: the op as graph.OpString prints it, or its
// address, and the metadata of its inputs.
func appendKey(key []byte, op graph.Op, args []Tensor) []byte {
	key = append(key, op.Kind()...)
	if byAddress(op) {
		key = fmt.Appendf(key, "%p", op)
	} else {
		key = fmt.Appendf(key, "%+v", op)
	}
	for _, x := range args {
		m := x.rec.pool.meta
		key = append(key, byte(m.DType))
		key = binary.AppendUvarint(key, uint64(len(m.Shape)))
		for _, d := range m.Shape {
			key = binary.AppendUvarint(key, uint64(d))
		}
	}
	return key
}

// quickArgs is the most arguments of a usual call.
const quickArgs = 4

// quickKey is the identity of a usual call, made without printing.
type quickKey struct {
	op    graph.Op
	signs uint64 // of op's floats: bit i is the sign of the ith one
	args  int
	in    [quickArgs]*pool
}

// attrs describes a type of ops.
type attrs struct {
	plain  bool  // two ops are the same if they and the signs of their floats are equal
	floats []int // fields that are floats
}

// quickKey makes the quick key of a call; ok is false if it has none.
func (c *cache) quickKey(op graph.Op, args []Tensor) (k quickKey, ok bool) {
	t := c.types[reflect.TypeOf(op)]
	if t == nil || !t.plain || len(args) > len(k.in) {
		return k, false
	}
	k.op, k.args, k.signs = op, len(args), signs(op, t.floats)
	for i, x := range args {
		k.in[i] = x.rec.pool
	}
	return k, true
}

// addQuick gives an entry a quick key, if it can have one.
func (c *cache) addQuick(e *entry, args []Tensor) {
	typ := reflect.TypeOf(e.op)
	t := c.types[typ]
	if t == nil {
		t = attrsOf(typ, e.op)
		c.types[typ] = t
	}
	e.quick = t.plain && len(args) <= quickArgs && e.op == e.op // not with NaN in it
	if !e.quick {
		return
	}
	e.floats = t.floats
	e.key = quickKey{op: e.op, args: len(args), signs: signs(e.op, t.floats)}
	for i, x := range args {
		e.key.in[i] = x.rec.pool
	}
	c.quick[e.key] = e
}

// is reports whether a call is the entry's, which has a quick key.
func (e *entry) is(op graph.Op, args []Tensor) bool {
	if len(args) != e.key.args || e.key.op != op || e.floats != nil && signs(op, e.floats) != e.key.signs {
		return false
	}
	for i, x := range args {
		if x.rec.pool != e.key.in[i] {
			return false
		}
	}
	return true
}

// signs is a bit for each float of an op: 0 equals -0.
func signs(op graph.Op, floats []int) (bits uint64) {
	if floats == nil {
		return 0
	}
	v := reflect.ValueOf(op)
	for i, f := range floats {
		if math.Signbit(v.Field(f).Float()) {
			bits |= 1 << i
		}
	}
	return bits
}

// attrsOf describes the type of an op. Values whose attributes are no lists, nor pointers, can be
// compared.
func attrsOf(t reflect.Type, op graph.Op) *attrs {
	if byAddress(op) {
		return &attrs{plain: true}
	}
	if t.Kind() != reflect.Struct {
		return &attrs{plain: isPlain(t)}
	}
	a := &attrs{plain: true}
	for i := range t.NumField() {
		switch f := t.Field(i).Type; {
		case f.Kind() == reflect.Float32 || f.Kind() == reflect.Float64:
			a.floats = append(a.floats, i)
		case !isPlain(f):
			return &attrs{}
		}
	}
	a.plain = len(a.floats) <= 64
	return a
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
