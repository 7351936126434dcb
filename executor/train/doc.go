// Package train trains a model. [Open] turns a config into a [Run]: it reads the data, has a session
// opened, and plans the graphs of a step. [Run.Train] takes the steps,
// with what comes between them: losses that come out, evaluations, checkpoints, and after the loss
// of a device another attempt with those that are left. [Run.Start] gives the steps to a program
// that takes them itself.
//
//	run, err := train.Open(ctx, c, train.OpenOptions{})
//	report, err := run.Train(ctx, train.Options{Dir: "runs/mine"})
//
// An attempt holds what one call has open. A loop takes its steps. The types to know are [Run],
// [Options] and [Report].
//
// # Why does finding the bad layer take a plan of its own?
//
// The search runs the forward pass once more and checks every value. `Plan.Forward` is the same cut without
// backward and update: it cannot change a weight, and it needs less memory than the run had.
//
// # When is a state saved after a device has failed?
//
// Updates of different stages run at different times, so after a failure one stage can be a step ahead of
// another. `Program.Whole` looks at the updates of the steps under way. The state is saved only if none of
// a step that failed has ended: a skipped update leaves the contents from before. A device whose operation
// failed can still be read; one that hangs or is lost cannot, and then nothing is saved. Variables also
// leave devices and come back, because memory is short or shared. A launch that fails leaves the bytes from
// before; a copy that fails leaves other bytes. So the contents of a variable carry the copies that brought
// them to where they are (`Carried`), and `Manager.Intact` asks whether all of them went well.
//
// A loss in an epoch's evaluation saves the epoch's last step without its metrics. The resumed run
// evaluates first, so that the best checkpoint and early stopping are those of a run that lost nothing.
package train
