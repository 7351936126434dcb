// Package berth trains models with weights that stay where they are used.
//
// [Open] turns a config into a [Run]: it opens the data, builds the model's
// graphs and plans them over devices; nothing is allocated on a device yet.
// [Run.Train] copies the weights in once and trains; [Run.Eval] and
// [Run.Predict] use what was trained. The command trainer is a thin shell over
// this package.
//
//	cfg, err := configs.Load("digits", configs.Overlay{})
//	…
//	run, err := berth.Open(ctx, cfg)
//	…
//	defer run.Close()
//	report, err := run.Train(ctx, berth.TrainOptions{Dir: "runs/digits"})
//
// The types to know are [Run], [TrainOptions], [Observer] and [Report].
package berth
