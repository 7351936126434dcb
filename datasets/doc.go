// Package datasets opens training data, splits it, and reads it in a seeded
// order whose whole state is a [Cursor] of two numbers.
//
// [Open] turns a [Spec] into a [Dataset]: a training [Part], a validation Part
// and an [Info] that says what a sample looks like. [Part.Read] fills whatever
// memory it is given, from any cursor, at the same cost. A [Loader] does so
// ahead of the consumer, on its own goroutine, into slots the consumer owns.
// [OpenInputs] reads samples without targets in the same format, for
// prediction, with what was fitted on the training part.
//
//	ds, err := datasets.Open(ctx, datasets.Spec{Source: "digits", Seed: 1})
//	dst := ds.Train.Alloc(64)
//	n, err := ds.Train.Read(datasets.Cursor{Epoch: 3, Index: 128}, 64, dst)
//
// Files are taken to be hostile: a malformed one gives an error that says
// where, never a panic, nor more memory than its size justifies.
//
// The types to know are [Spec], [Dataset], [Part], [Cursor] and [Loader].
package datasets
