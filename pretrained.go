package berth

import (
	"context"

	"github.com/berth-ml/berth/checkpoint/exchange"
	"github.com/berth-ml/berth/internal/errs"
)

// What Import and Export take and give.
type (
	// ImportOptions are the options of Import.
	ImportOptions = exchange.ImportOptions
	// Imported is an imported model.
	Imported = exchange.Imported
	// Exported is a model that was exported.
	Exported = exchange.Exported
)

// Import makes a run folder of a GPT-2, Llama, Mistral or Qwen2 in Hugging Face's layout: from is a folder with
// config.json, model.safetensors (or an index of several) and tokenizer.json (or
// vocab.json and merges.txt). The run has one checkpoint, of step 0, so that it
// evaluates and predicts, and a resumed run trains it further on the text that
// data.path then names. It keeps the folder's chat template and the tokens that end a text, for
// [GenerateOptions].Messages. A dir that holds a run is refused. After an error, nothing of it is left.
//
// A from that ends in .safetensors is a file that [ExportSafetensors] wrote. The run then has its
// weights, its config and what was fitted to its data, and answers as the run that it is of.
func Import(ctx context.Context, from, dir string, o ImportOptions) (*Imported, error) {
	if err := errs.CheckContext(ctx); err != nil {
		return nil, err
	}
	return exchange.Import(ctx, from, dir, o)
}

// Export writes the model of a run's checkpoint into a new folder dir, in Hugging Face's
// layout. The run's model must be of the preset gpt, llama, mistral or qwen2. w.Init is not for this.
func Export(ctx context.Context, w Weights, dir string) (*Exported, error) {
	if err := errs.CheckContext(ctx); err != nil {
		return nil, err
	}
	return exchange.Export(ctx, w, dir)
}

// ExportPEFT writes the adapter of a run's checkpoint, which adapt.lora trains, alone into a new
// folder dir: adapter_model.safetensors and adapter_config.json, which PEFT of Hugging Face loads
// beside the base. The other exports merge it into the base. w.Init is not for this.
func ExportPEFT(ctx context.Context, w Weights, dir string) (*Exported, error) {
	if err := errs.CheckContext(ctx); err != nil {
		return nil, err
	}
	return exchange.ExportPEFT(ctx, w, dir)
}

// ExportONNX writes the model of a run's checkpoint as an ONNX file at path, whole or not at
// all. What was fitted to a table is in the graph, so that it takes raw rows: docs/export.md
// says which inputs and outputs it has. A model with an op that has no form in ONNX is refused
// with [ErrONNX], which names its layers. w.Init is not for this.
func ExportONNX(ctx context.Context, w Weights, path string) (*Exported, error) {
	if err := errs.CheckContext(ctx); err != nil {
		return nil, err
	}
	return exchange.ExportONNX(ctx, w, path)
}

// ExportSafetensors writes the weights of a run's checkpoint as a safetensors file at path, whole
// or not at all, with the config and what was fitted to the data in its metadata: [Import] makes
// a run of it, TrainOptions.Init takes the weights alone. w.Init is not for this.
func ExportSafetensors(ctx context.Context, w Weights, path string) (*Exported, error) {
	if err := errs.CheckContext(ctx); err != nil {
		return nil, err
	}
	return exchange.ExportSafetensors(ctx, w, path)
}
