// Package models builds graphs from a list of layers. A layer type is a row in
// the table of types.go: the input it accepts and its build function. The
// presets mlp, cnn and gpt are lists of layers like any that a user writes.
//
// From one [Spec] come three graphs that share their variables by name:
// [Train] (forward, backward and update), [Eval] (loss and accuracy, summed on
// the device) and [Predict]. [Fill] gives the first contents of a variable.
//
// The types to know are [Spec], [Layer] and [Size].
//
// Letters in comments: B batch, T time, D width, C channels or classes, H and
// W height and width.
package models
