// Package trained uses a trained model on devices: it evaluates, predicts, continues texts and
// serves. [Open] finds the checkpoint that is meant, and plans for it; [OfRun] uses the devices and
// the plan of a training. The weights go in with each call, and stay in a service. After the loss
// of a device, a call goes on with the other groups of devices that have the model.
//
//	m, err := trained.Open(ctx, c, rundir.Weights{Dir: "runs/mine"}, trained.OpenOptions{})
//	result, err := m.Eval(ctx)
//
// The types to know are [Model] and [Service]. How answers are computed is in package answer.
package trained
