// Package optim turns a forward graph into a training step. It appends the
// backward pass, sums gradients over microbatches, clips them, and appends the
// optimizer's update of every trained variable. The step counter and the learning
// rate are part of the graph, so that the batch is a step's only input.
//
// The type to know is [Spec]; [Append] does the work.
//
// # Why is there a package engine/optim?
//
// An optimizer is neither an op nor a model: it appends updates to any graph with variables.
// `engine/models` only asks for it.
package optim
