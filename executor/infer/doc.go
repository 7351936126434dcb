// Package infer uses a model's weights without changing them: an [Evaluator]
// computes loss and accuracy over a part of the data, a [Predictor] the model's
// answer for each sample, a [Generator] continues a text. Their graphs are cut over the
// devices as the model's plan is. Several groups of devices may have the model, each
// whole: a batch then goes to a group that is free, and results are put in order.
//
//	e, err := infer.NewEvaluator(ctx, rt, model, part)
//	…
//	err = e.Init(ctx, contents)  // unless a program of the runtime has the weights
//	score, err := e.Run(ctx)
//
// The types to know are [Model], [Score] and [Answer].
package infer
