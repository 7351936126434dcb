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
package custom
