// Package graph is the intermediate representation of a training step: values
// joined by nodes, each node an [Op] applied to values. Shapes are static and
// are inferred as nodes are added, so a mistake is reported at build time with
// the config line of the layer that made it.
//
// A graph is built for one microbatch. Reverse-mode differentiation
// ([Builder.Gradients]) appends the backward pass, and optimizers append the
// update of every variable, so that a whole training step is one graph with
// three phases: Forward, Backward and Update. What Forward and Backward sum
// over the microbatches of a step is declared with [Builder.Accumulate].
//
// The types to know are [Value], [Node], [Op], [Graph] and [Builder].
package graph
