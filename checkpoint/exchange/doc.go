// Package exchange takes models in from other programs and out to them. It makes a run folder of a
// GPT-2 or a Llama in Hugging Face's layout, and such a folder of a run's checkpoint; a file of ONNX; and a
// file of weights with what was fitted to the data, which becomes a run again. Packages pretrained,
// onnx and safetensors read and write the files; this package says what they mean as a config, a
// checkpoint and a description of data.
//
//	m, err := exchange.Import(ctx, "gpt2", "runs/gpt2", exchange.ImportOptions{})
//	x, err := exchange.Export(ctx, rundir.Weights{Dir: "runs/gpt2"}, "mine")
//	x, err = exchange.ExportONNX(ctx, rundir.Weights{Dir: "runs/churn"}, "churn.onnx")
package exchange
