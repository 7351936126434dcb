// Package berth trains models with weights that stay where they are used.
//
// [Open] turns a config into a [Run]: it opens the data, builds the model's
// graphs and plans them over devices; nothing is allocated on a device yet.
// [Run.Train] copies the weights in once and trains. [OpenTrained] opens a
// checkpoint as a [Trained], which evaluates and predicts. The command trainer
// is a thin shell over this package.
//
//	cfg, err := configs.Load("digits", configs.Overlay{})
//	…
//	run, err := berth.Open(ctx, cfg, berth.OpenOptions{})
//	…
//	defer run.Close()
//	report, err := run.Train(ctx, berth.TrainOptions{Dir: "runs/digits"})
//	…
//	best, err := berth.OpenTrained(ctx, cfg, berth.Weights{Dir: "runs/digits"}, berth.TrainedOptions{})
//	…
//	defer best.Close()
//	evaluation, err := best.Eval(ctx)
//
// The types to know are [Run], [TrainOptions], [Observer], [Report] and
// [Trained].
//
// A mistake of a caller is an error, and no panic:
//
//   - A method of a closed Run, Trained, Training, Service, Devices or OpByOp fails with
//     [ErrClosed]. One without an error, such as Run.Notes, still says what it knew.
//   - A method of a nil one, or of one that the program made itself, fails with [ErrOptions].
//     One without an error gives its zero value.
//   - A nil context and a nil function to call fail with [ErrOptions], before anything is
//     done. Functions in options may be nil: nobody is told then.
//   - Close of a nil or closed value does nothing.
package berth
