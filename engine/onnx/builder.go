package onnx

import (
	"encoding/binary"
	"fmt"
	"math"
	"strconv"
)

// The names of the dimensions that count samples, and positions of a sequence.
const (
	Batch     = "batch"
	Positions = "positions"
)

// Builder puts the graph of a model together. Values are known by their names, which it
// chooses. One goroutine uses it.
type Builder struct {
	graph  Graph
	taken  map[string]int    // by name, the number at which Free begins
	consts map[string]string // names of constants, by their type, dimensions and contents
}

// NewBuilder begins a graph of that name.
func NewBuilder(name string) *Builder {
	return &Builder{graph: Graph{Name: name}, taken: map[string]int{}, consts: map[string]string{}}
}

// Graph is what was built.
func (b *Builder) Graph() Graph { return b.graph }

// Free is name, or the first of name_2, name_3 and so on that no value has.
func (b *Builder) Free(name string) string {
	free := name
	for free == "" || b.taken[free] > 0 {
		b.taken[name] = max(2, b.taken[name]+1)
		free = name + "_" + strconv.Itoa(b.taken[name])
	}
	b.taken[free]++
	return free
}

// Input declares an input of the model. Its name is name, unless a value has that one already.
func (b *Builder) Input(name string, t Type, dims ...Dim) string {
	name = b.Free(name)
	b.graph.Inputs = append(b.graph.Inputs, ValueInfo{name, t, dims})
	return name
}

// Output makes a value an output of the model under a name like Input's, which it returns.
func (b *Builder) Output(name, value string, t Type, dims ...Dim) string {
	name = b.Free(name)
	b.graph.Nodes = append(b.graph.Nodes, Node{Op: "Identity", In: []string{value}, Out: []string{name}})
	b.graph.Outputs = append(b.graph.Outputs, ValueInfo{name, t, dims})
	return name
}

// Node appends a node of ONNX's own operators, and returns its output.
func (b *Builder) Node(op string, attrs []Attr, in ...string) string {
	return b.Append(Node{Op: op, Attrs: attrs, In: in})[0]
}

// Append appends a node, and returns its outputs: one, if the node names none.
func (b *Builder) Append(n Node) []string {
	if n.Out == nil {
		n.Out = []string{n.Op}
	}
	for i, name := range n.Out {
		n.Out[i] = b.Free(name)
	}
	b.graph.Nodes = append(b.graph.Nodes, n)
	return n.Out
}

// Weight adds a constant whose numbers are read when the model is written.
func (b *Builder) Weight(name string, t Type, dims []int, read func(dst []byte) error) string {
	name = b.Free(name)
	b.graph.Initializers = append(b.graph.Initializers, Tensor{Name: name, Type: t, Dims: dims, Read: read})
	return name
}

// constant is a constant of those contents, of which there is one.
func (b *Builder) constant(t Tensor) string {
	key := fmt.Sprintf("%d %v %q %s", t.Type, t.Dims, t.Strings, t.Bytes)
	name, known := b.consts[key]
	if !known {
		name = b.Free("const")
		t.Name = name
		b.consts[key] = name
		b.graph.Initializers = append(b.graph.Initializers, t)
	}
	return name
}

// Float is a constant f32[].
func (b *Builder) Float(v float64) string { return b.constant(floats(nil, float32(v))) }

// Floats is a constant f32 with those dimensions.
func (b *Builder) Floats(dims []int, v ...float32) string { return b.constant(floats(dims, v...)) }

// floats is a tensor f32.
func floats(dims []int, v ...float32) Tensor {
	t := Tensor{Type: Float32, Dims: dims}
	for _, x := range v {
		t.Bytes = binary.LittleEndian.AppendUint32(t.Bytes, math.Float32bits(x))
	}
	return t
}

// Doubles is a constant f64 with those dimensions.
func (b *Builder) Doubles(dims []int, v ...float64) string {
	t := Tensor{Type: Float64, Dims: dims}
	for _, x := range v {
		t.Bytes = binary.LittleEndian.AppendUint64(t.Bytes, math.Float64bits(x))
	}
	return b.constant(t)
}

// Ints is a constant i64[n].
func (b *Builder) Ints(v ...int64) string { return b.constant(ints(Int64, []int{len(v)}, v...)) }

// Int is a constant i64[].
func (b *Builder) Int(v int64) string { return b.constant(ints(Int64, nil, v)) }

// ints is a tensor of whole numbers.
func ints(kind Type, dims []int, v ...int64) Tensor {
	t := Tensor{Type: kind, Dims: dims}
	for _, x := range v {
		if kind == Int32 {
			t.Bytes = binary.LittleEndian.AppendUint32(t.Bytes, uint32(int32(x)))
		} else {
			t.Bytes = binary.LittleEndian.AppendUint64(t.Bytes, uint64(x))
		}
	}
	return t
}

// Strings is a constant of texts, a vector.
func (b *Builder) Strings(v ...string) string {
	return b.constant(Tensor{Type: String, Dims: []int{len(v)}, Strings: v})
}

// Cast converts a value to another type.
func (b *Builder) Cast(x string, to Type) string {
	return b.Node("Cast", []Attr{{"to", int64(to)}}, x)
}

// Int32 is a constant i32[].
func (b *Builder) Int32(v int) string { return b.constant(ints(Int32, nil, int64(v))) }
