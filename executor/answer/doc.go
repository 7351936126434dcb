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
//	score, err := e.Evaluate(ctx, judge, part, &progress)
//	err = e.Predict(ctx, part, &progress, func(p answer.Prediction) error { … })
//
// The types to know are [Engine], [Model], [Judge], [Text] and [Service].
package answer
