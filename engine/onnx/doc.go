// Package onnx writes models as ONNX files: a graph of nodes from the sets of operators of
// [Opset] and [TableOpset], with the weights inside.
//
// A [Builder] puts a model together. [Append] adds the nodes of a graph of this module, whose
// ops it has a table of; an op that is not in the table is refused with [ErrOp], by the name of
// its layer. [Write] encodes the model as a protobuf message, with one tensor in memory at a time.
//
// The types to know are [Builder], [Model], [Node], [Tensor] and [ValueInfo].
package onnx
