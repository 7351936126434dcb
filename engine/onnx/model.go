package onnx

import "errors"

// The versions that files state. Opset is that of the operators of ONNX itself, TableOpset
// that of its operators for tables, which have the domain [Tables].
const (
	IRVersion  = 8
	Opset      = 17
	TableOpset = 3
	Tables     = "ai.onnx.ml"
)

// MaxBytes is the most bytes of a file: a protobuf message is below 2 GiB.
const MaxBytes = 1<<31 - 1

// The causes of errors.
var (
	ErrOp    = errors.New("no form in ONNX")              // an op of the graph
	ErrLarge = errors.New("too large for a file of ONNX") // see MaxBytes
)

// Type is the type of a tensor's elements, by its number in the format.
type Type int32

// The types that are written.
const (
	Float32  Type = 1
	Int32    Type = 6
	Int64    Type = 7
	String   Type = 8
	Float16  Type = 10
	Float64  Type = 11
	BFloat16 Type = 16
)

// size is the bytes of an element; 0 for a string.
func (t Type) size() int64 {
	switch t {
	case Float32, Int32:
		return 4
	case Int64, Float64:
		return 8
	case Float16, BFloat16:
		return 2
	}
	return 0
}

// Model is a model to write.
type Model struct {
	Producer, ProducerVersion string
	Metadata                  []Property
	Graph                     Graph
}

// Property is a text with a name.
type Property struct{ Key, Value string }

// Graph is the nodes of a model, each after those whose values it reads.
type Graph struct {
	Name         string
	Nodes        []Node
	Initializers []Tensor // constants
	Inputs       []ValueInfo
	Outputs      []ValueInfo
}

// Node applies an operator to values, which it reads and makes by name.
type Node struct {
	Op, Domain string // domain "" is ONNX's own
	In, Out    []string
	Attrs      []Attr
}

// Attr is an attribute of a node. Value is an int64, float32, []int64, []string or *Tensor.
type Attr struct {
	Name  string
	Value any
}

// Tensor is a constant: numbers in Bytes, little-endian, or those that Read fills in when they
// are written; or Strings.
type Tensor struct {
	Name    string
	Type    Type
	Dims    []int
	Bytes   []byte
	Read    func(dst []byte) error
	Strings []string
}

// elems is the number of elements.
func (t *Tensor) elems() int64 {
	n := int64(1)
	for _, d := range t.Dims {
		n *= int64(d)
	}
	return n
}

// ValueInfo describes an input or output of the model.
type ValueInfo struct {
	Name string
	Type Type
	Dims []Dim
}

// Dim is a dimension: a number, or one that differs from call to call and has a name.
type Dim struct {
	Size int
	Name string // "": Size holds
}
