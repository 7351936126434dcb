// Package initial gives a model's variables their first contents: by the rule
// of each layer, from a safetensors file ([Open]), or from a checkpoint
// ([FromSnapshot]).
//
//	values, err := initial.Open(ctx, "weights.safetensors:model.", seed, plan.Graph.Vars)
//	…
//	defer values.Close()
//	err = program.Init(ctx, values.Read)
//
// The types to know are [Source], [Values] and [Contents]. [Hash] tells files of weights apart by what a model gets from them.
//
// # Why do first values pass through the host one by one?
//
// All variables together are three times the weights under Adam, as much as the run needs on its device. So
// each variable is written to host memory, copied, and its host memory given back; only a few are there at
// a time. Whoever needs zeros writes them: memory may hold anything, on hosts and on devices, and the tests
// fill it with NaN first.
//
// # Why is a compressed file of weights unpacked again, and not kept?
//
// It can only be read in order, and a device without room for all weights needs them again in each pass of
// the model. Unpacked, they would take memory or disk of the size that the user does not have, or they
// would not have limited the memory. So each pass unpacks the file again. What it passes on the way to the
// tensor that is wanted is kept if no device has it, those needed next, up to half of the staging memory:
// tensors of a layer are used together, and rarely in the order of their names, and a backward pass goes
// from the end to the front. Measured, a GPT with 72 MiB of weights in 25% to 60% of its memory unpacks 1.0
// to 1.2 times its file for each batch, and 24 layers of 4 MiB in 15% of theirs 1.4 times. Reading forward
// to the end once when a run begins finds damaged files early.
package initial
