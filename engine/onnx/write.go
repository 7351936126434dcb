package onnx

import (
	"bufio"
	"fmt"
	"io"
	"math"
	"slices"

	"google.golang.org/protobuf/encoding/protowire"
)

// The fields of the messages of onnx.proto that are written.
const (
	modelIR, modelProducer, modelProducerVersion, modelGraph, modelOpset, modelMetadata = 1, 2, 3, 7, 8, 14

	opsetDomain, opsetVersion = 1, 2
	entryKey, entryValue      = 1, 2

	graphNode, graphName, graphInitializer, graphInput, graphOutput = 1, 2, 5, 11, 12

	nodeInput, nodeOutput, nodeName, nodeOp, nodeAttribute, nodeDomain = 1, 2, 3, 4, 5, 7

	attrName, attrFloat, attrInt, attrTensor, attrInts, attrStrings, attrType = 1, 2, 3, 5, 8, 9, 20

	typeFloat, typeInt, typeTensor, typeInts, typeStrings = 1, 2, 4, 7, 8 // AttributeProto.AttributeType

	tensorDims, tensorType, tensorStrings, tensorName, tensorRaw = 1, 2, 6, 8, 9

	infoName, infoType, typeOfTensor, tensorElem, tensorShape = 1, 2, 1, 1, 2

	shapeDim, dimValue, dimParam = 1, 1, 2
)

// message is an encoded protobuf message.
type message []byte

func (m *message) number(field protowire.Number, v int64) {
	*m = protowire.AppendVarint(protowire.AppendTag(*m, field, protowire.VarintType), uint64(v))
}

func (m *message) float(field protowire.Number, v float32) {
	*m = protowire.AppendFixed32(protowire.AppendTag(*m, field, protowire.Fixed32Type), math.Float32bits(v))
}

func (m *message) text(field protowire.Number, v string) {
	*m = protowire.AppendString(protowire.AppendTag(*m, field, protowire.BytesType), v)
}

func (m *message) inner(field protowire.Number, v message) {
	*m = protowire.AppendBytes(protowire.AppendTag(*m, field, protowire.BytesType), v)
}

// head is the tag and length of a field that bytes follow for.
func (m *message) head(field protowire.Number, bytes int64) {
	*m = protowire.AppendVarint(protowire.AppendTag(*m, field, protowire.BytesType), uint64(bytes))
}

// Write writes a model. It fails with [ErrLarge] before the first byte where the file would be
// larger than [MaxBytes].
func Write(w io.Writer, m *Model) error {
	graph, tensors, bytes := encodeGraph(&m.Graph)
	var out message
	out.number(modelIR, IRVersion)
	out.text(modelProducer, m.Producer)
	out.text(modelProducerVersion, m.ProducerVersion)
	for _, set := range []struct {
		domain  string
		version int64
	}{{"", Opset}, {Tables, TableOpset}} {
		var o message
		o.text(opsetDomain, set.domain)
		o.number(opsetVersion, set.version)
		out.inner(modelOpset, o)
	}
	for _, p := range m.Metadata {
		var e message
		e.text(entryKey, p.Key)
		e.text(entryValue, p.Value)
		out.inner(modelMetadata, e)
	}
	out.head(modelGraph, bytes)
	if total := int64(len(out)) + bytes; total > MaxBytes {
		return fmt.Errorf("%w: it would have %d bytes, and the format ends at %d; write the weights alone, as safetensors", ErrLarge, total, int64(MaxBytes))
	}
	return writeParts(w, append(out, graph...), tensors, m.Graph.Initializers)
}

// writeParts writes the beginning of a file and its tensors, the last part of the graph.
func writeParts(w io.Writer, begin message, heads []message, tensors []Tensor) error {
	b := bufio.NewWriter(w)
	if _, err := b.Write(begin); err != nil {
		return err
	}
	var buf []byte
	for i := range tensors {
		t := &tensors[i]
		if _, err := b.Write(heads[i]); err != nil {
			return err
		}
		data := t.Bytes
		if t.Read != nil {
			n := int(t.rawBytes())
			buf = slices.Grow(buf[:0], n)[:n]
			if data = buf; n > 0 {
				if err := t.Read(data); err != nil {
					return fmt.Errorf("tensor %q: %w", t.Name, err)
				}
			}
		}
		if _, err := b.Write(data); err != nil {
			return err
		}
	}
	return b.Flush()
}

// encodeGraph encodes all of a graph but the numbers of its initializers, which come last:
// heads has what goes before those of each. bytes is the length of the whole.
func encodeGraph(g *Graph) (m message, heads []message, bytes int64) {
	m.text(graphName, g.Name)
	for i := range g.Nodes {
		m.inner(graphNode, encodeNode(&g.Nodes[i], i))
	}
	for _, v := range g.Inputs {
		m.inner(graphInput, encodeInfo(v))
	}
	for _, v := range g.Outputs {
		m.inner(graphOutput, encodeInfo(v))
	}
	bytes = int64(len(m))
	for i := range g.Initializers {
		t := &g.Initializers[i]
		begin := encodeTensor(t)
		var head message
		head.head(graphInitializer, int64(len(begin))+t.rawBytes())
		head = append(head, begin...)
		heads = append(heads, head)
		bytes += int64(len(head)) + t.rawBytes()
	}
	return m, heads, bytes
}

// rawBytes is the length of the numbers of a tensor.
func (t *Tensor) rawBytes() int64 { return t.elems() * t.Type.size() }

// encodeTensor encodes a tensor up to its numbers, its last field.
func encodeTensor(t *Tensor) (m message) {
	for _, d := range t.Dims {
		m.number(tensorDims, int64(d))
	}
	m.number(tensorType, int64(t.Type))
	for _, s := range t.Strings {
		m.text(tensorStrings, s)
	}
	if t.Name != "" {
		m.text(tensorName, t.Name)
	}
	if t.Type != String {
		m.head(tensorRaw, t.rawBytes())
	}
	return m
}

func encodeNode(n *Node, index int) (m message) {
	for _, name := range n.In {
		m.text(nodeInput, name)
	}
	for _, name := range n.Out {
		m.text(nodeOutput, name)
	}
	m.text(nodeName, fmt.Sprintf("%s_%d", n.Op, index))
	m.text(nodeOp, n.Op)
	for _, a := range n.Attrs {
		m.inner(nodeAttribute, encodeAttr(a))
	}
	if n.Domain != "" {
		m.text(nodeDomain, n.Domain)
	}
	return m
}

func encodeAttr(a Attr) (m message) {
	m.text(attrName, a.Name)
	kind := int64(0)
	switch v := a.Value.(type) {
	case int64:
		m.number(attrInt, v)
		kind = typeInt
	case float32:
		m.float(attrFloat, v)
		kind = typeFloat
	case []int64:
		for _, x := range v {
			m.number(attrInts, x)
		}
		kind = typeInts
	case []string:
		for _, x := range v {
			m.text(attrStrings, x)
		}
		kind = typeStrings
	case *Tensor:
		m.inner(attrTensor, append(encodeTensor(v), v.Bytes...))
		kind = typeTensor
	default:
		panic(fmt.Sprintf("BUG: attribute %s is a %T", a.Name, a.Value))
	}
	m.number(attrType, kind)
	return m
}

func encodeInfo(v ValueInfo) (m message) {
	var dims, tensor, kind message
	for _, d := range v.Dims {
		var dim message
		if d.Name != "" {
			dim.text(dimParam, d.Name)
		} else {
			dim.number(dimValue, int64(d.Size))
		}
		dims.inner(shapeDim, dim)
	}
	tensor.number(tensorElem, int64(v.Type))
	tensor.inner(tensorShape, dims)
	kind.inner(typeOfTensor, tensor)
	m.text(infoName, v.Name)
	m.inner(infoType, kind)
	return m
}
