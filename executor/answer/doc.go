// Package answer answers questions with trained weights: predictions, a layer's
// outputs, loss and metrics over a part of the data, texts.
//
// An [Engine] has the weights on a runtime, and loads programs as questions need them. A
// call of a trained model makes an engine, asks it and closes it; a training asks one on
// its own runtime, between two steps; a [Service] keeps one open, and lets requests of
// many goroutines take turns.
//
//	e := answer.NewEngine(rt, model, load)
//	defer e.Close()
//	score, err := e.Evaluate(ctx, judge, part)
//	err = e.Predict(ctx, part, &progress, func(p answer.Prediction) error { … })
//
// The types to know are [Engine], [Model], [Judge], [Text] and [Service].
//
// # Why are the outputs of a layer computed, and not kept from the step?
//
// A step frees or overwrites what a layer gave as soon as its backward pass is done, fuses it into other
// passes, or computes it twice. Keeping it would change the plan, its memory and the fused kernels of every
// step, for a callback that looks every hundredth. `Activations` instead runs the layers up to the one that
// is asked for, as an evaluation, with the weights where they are: the steps and their plan stay as they
// are, and the samples may be the program's own.
package answer
