// Package models builds graphs from layers. A layer is a struct such as [Dense]: its
// fields are its keys in a config, and its method Build appends its nodes to a graph. Each
// type is in one file and registers itself, as those of a program do. The presets mlp, cnn,
// gpt, those of Llama's family, resnet and vit are stacks of layers like any that a user writes.
//
// From one [Spec] come three graphs that share their variables by name:
// [Train] (forward, backward and update), [Eval] (loss and accuracy, summed on
// the device) and [Predict]. [Fill] gives the first contents of a variable.
//
// The types to know are [Spec], [Layer], [Stack], [Builder] and [Size].
//
// Letters in comments: B batch, T time, D width, C channels or classes, H and
// W height and width.
package models
