// Package exchange makes a run folder of a GPT-2 in Hugging Face's layout, and such a folder of a
// run's checkpoint. Package pretrained reads and writes the files of that layout; this package
// says what they mean as a config, a checkpoint and a tokenizer.
//
//	m, err := exchange.Import(ctx, "gpt2", "runs/gpt2", exchange.ImportOptions{})
//	x, err := exchange.Export(ctx, rundir.Weights{Dir: "runs/gpt2"}, "mine")
package exchange
