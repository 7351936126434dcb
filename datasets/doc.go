// Package datasets opens training data, splits it, and reads it in a seeded
// order. The whole state of reading is a [Cursor] of two numbers.
//
// [Open] turns a [Spec] into a [Dataset]: a training [Part], a validation Part,
// and an [Info] that describes a sample. [Part.Read] fills whatever memory it is
// given, from any cursor, at the same cost. A [Loader] reads ahead of the
// consumer, on its own goroutine, into memory that the consumer owns.
// [OpenInputs] reads samples to predict from; the scaling and vocabulary of the
// training data apply.
//
//	ds, err := datasets.Open(ctx, datasets.Spec{Source: "digits", Seed: 1})
//	dst := ds.Train.Alloc(64)
//	n, err := ds.Train.Read(datasets.Cursor{Epoch: 3, Index: 128}, 64, dst)
//
// Files may be hostile: a malformed file gives an error with its position, never
// a panic, and takes no more memory than its size justifies. Samples take at most
// the file's size, unpacked, or twice that of a csv file. The exception is a text
// of more than 65,536 different characters, which takes four bytes for each.
//
// The types to know are [Spec], [Dataset], [Part], [Cursor] and [Loader]. A
// format is one file (digits, mnist, csv, text, tensors) that turns a Spec into
// a table; open.go lists them.
package datasets
