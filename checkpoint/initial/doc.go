// Package initial gives a model's variables their first contents: by the rule
// of each layer, from a safetensors file ([Open]), or from a checkpoint
// ([FromSnapshot]).
//
//	values, err := initial.Open(ctx, "weights.safetensors:model.", seed, plan.Graph.Vars)
//	…
//	defer values.Close()
//	err = program.Init(ctx, values.Read)
//
// The types to know are [Values] and [Contents].
package initial
