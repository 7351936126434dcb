// Package models builds graphs from a list of layers. A layer is a row in a
// table of build functions; the presets mlp, cnn and gpt are lists of layers
// like any that a user writes.
//
// From one [Spec] come three graphs that share their variables by name:
// [Train] (forward, backward and update), [Eval] (loss and accuracy, summed on
// the device) and [Predict].
//
// Letters in comments: B batch, T time, D width, C channels or classes, H and
// W height and width.
package models
