// Package graph is the intermediate representation of a training step: values
// joined by nodes, each node an [Op] applied to values. Shapes are static. They
// are inferred as nodes are added, so a mistake is reported while the graph is
// built, with the config line of its layer.
//
// A graph is built for one microbatch. Reverse-mode differentiation
// ([Builder.Gradients]) appends the backward pass, and optimizers append the
// update of every variable. So a whole training step is one graph with three
// phases: Forward, Backward and Update. [Builder.Accumulate] declares sums over
// the microbatches of a step.
//
// The types to know are [Value], [Node], [Op], [Graph] and [Builder].
package graph
