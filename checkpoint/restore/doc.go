// Package restore says what a checkpoint is still good for. Fingerprints tell whether a run is
// the one that wrote it: its config, its data, the kernels of its devices, and what a program
// has added. A [Run] compares them, and finds where training goes on; [Model.Suits] asks less: whether
// a trained model may use the weights.
//
//	run := restore.Run{Model: restore.Model{Config: c, Data: info.Fingerprint}, Numerics: numerics, …}
//	at, steps, err := run.Resume(snapshot, false, note)
//
// The types to know are [Run] and [Model].
package restore
