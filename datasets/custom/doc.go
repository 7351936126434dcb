// Package custom makes a data set of a program's own. A [Set] says what a sample is
// and writes one sample at a time, into tensors that lie over the memory from which
// a device copies the batch: there is no further copy. Splits, shuffling, reading
// ahead, evaluation and resuming are those of all data sets.
//
//	set := &custom.Set{
//		Name: "squares", Version: 1, Len: 1000,
//		Input: shape.F32(1), Target: shape.F32(1),
//		Fill: func(s custom.Sample, input, target *tensor.Dense) error {
//			x := float32(s.Index) / 1000
//			input.Float32s()[0], target.Float32s()[0] = x, x*x
//			return nil
//		},
//	}
//	run, err := berth.Open(ctx, cfg, berth.OpenOptions{Data: set})
//
// The config then says `data: {source: given, task: regression}`; without the task,
// targets are classes.
//
// [Check] finds the usual mistakes of a function Fill, in a test. A program that
// runs the commands makes a set known to YAML with [Register].
//
// The types to know are [Set], [Sample] and [SourceType].
//
// # Why do sequences of numbers have no data source of their own?
//
// Files of them have no common form: rows of a table with a key for the sequence, a line of JSON for each,
// a file for each. Each choice needs keys for columns, targets, windows and scaling, which is most of
// another `csv`. A program's own data set takes them in some 20 lines (`Length` in extending.md), in the
// form that they have.
//
// # Why does an own data set write one sample, and not a batch?
//
// A batch is a loader's matter: its size, its order in an epoch, the split, the smaller last batch and the
// place to resume at are the same for all sources. One sample by its number is all that they need, and the
// shortest function to write. Its tensors lie over the batch's own memory and are used again, so a sample
// costs a call and no allocation. Random changes follow a seed that depends on the run, the sample and the
// epoch alone: a generator with a state would differ after a resume.
//
// # Why are only some samples of an own data set part of the fingerprint?
//
// All of a source's samples are, where they are in memory. A function may compute a billion of them, or
// read each from a disk. Its name and version, a text of the program's choice and 16 samples tell most
// changes, at the cost of 16 calls.
package custom
