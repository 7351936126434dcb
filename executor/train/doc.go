// Package train trains a model. [Open] plans the graphs of a step; [Run.Train] takes the steps,
// with what comes between them: losses that come out, evaluations, checkpoints, and after the loss
// of a device another attempt with those that are left. [Run.Start] gives the steps to a program
// that takes them itself.
//
//	run, err := train.Open(ctx, data, optim, session.Options{Config: c, …})
//	report, err := run.Train(ctx, train.Options{Dir: "runs/mine"})
//
// An attempt holds what one call has open. A loop takes its steps. The types to know are [Run],
// [Options] and [Report].
package train
