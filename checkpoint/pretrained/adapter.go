package pretrained

import (
	"context"
	"path/filepath"
	"strings"

	"github.com/berth-ml/berth/checkpoint"
)

// The files of an adapter, as PEFT names them.
const (
	AdapterWeightsName = "adapter_model.safetensors"
	AdapterConfigName  = "adapter_config.json"
)

// Adapter is an adapter of low rank to write.
type Adapter struct {
	Family    string // of the base: see [Config]; "": none of them, and names are the model's own
	Rank      int
	Alpha     float64
	Dropout   float64
	Continues bool     // the model continues texts
	Products  []string // names of the layers and projections with an adapter
	Weights   *checkpoint.Snapshot
}

// prefixPEFT is before all names of PEFT's files of weights.
const prefixPEFT = "base_model.model."

// WriteAdapter makes a folder of an adapter, which PEFT's PeftModel.from_pretrained loads beside the
// base. It appears whole, or not at all. ctx ends it.
func WriteAdapter(ctx context.Context, dir string, a Adapter) error {
	return writeFolder(dir, func(next string) error {
		name := func(t checkpoint.Tensor) string {
			if t.Role != roleParameter {
				return ""
			}
			return prefixPEFT + a.nameOf(t.Name)
		}
		if err := a.Weights.Export(ctx, filepath.Join(next, AdapterWeightsName), nil, name); err != nil {
			return err
		}
		text, err := indented(a.config())
		if err != nil {
			return err
		}
		return writeFile(filepath.Join(next, AdapterConfigName), text)
	})
}

// nameOf is the name in transformers of something in the model.
func (a *Adapter) nameOf(name string) string {
	if a.Family == "" || strings.HasPrefix(name, strings.TrimSuffix(headName, "weight")) || name+".weight" == headName {
		return name
	}
	return layoutOf(a.Family).prefix + name
}

// config is adapter_config.json, the keys of PEFT's LoraConfig. It names no base: that is where its
// user has it.
func (a *Adapter) config() map[string]any {
	var targets []string
	for _, p := range a.Products {
		targets = append(targets, a.nameOf(p))
	}
	var task any
	if a.Continues {
		task = "CAUSAL_LM"
	}
	return map[string]any{
		"peft_type": "LORA", "task_type": task, "base_model_name_or_path": nil, "inference_mode": true,
		"r": a.Rank, "lora_alpha": a.Alpha, "lora_dropout": a.Dropout, "target_modules": targets, "bias": "none",
		"fan_in_fan_out": a.Family == GPT2, // weights are [in,out]
	}
}
