// Package optim turns a forward graph into a training step: it appends the
// backward pass, sums gradients over microbatches, clips them, and appends the
// optimizer's update of every trained variable. Step counter and learning rate
// are part of the graph, so nothing is fed to a step but its batch.
//
// The type to know is [Spec]; [Append] does the work.
package optim
