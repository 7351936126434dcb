package exchange

import (
	"context"
	"fmt"
	"strings"

	"github.com/berth-ml/berth/checkpoint/pretrained"
	"github.com/berth-ml/berth/checkpoint/rundir"
	"github.com/berth-ml/berth/engine/models"
	"github.com/berth-ml/berth/internal/errs"
)

// ExportPEFT writes the adapter of a run's checkpoint alone into a new folder, as PEFT of Hugging Face
// reads it for the base in transformers. The run must have one. w.Init is not for this.
func ExportPEFT(ctx context.Context, w rundir.Weights, dir string) (*Exported, error) {
	return export(ctx, w, func(x *exporting) error { return x.peft(ctx, dir) })
}

// peft writes the adapter.
func (x *exporting) peft(ctx context.Context, dir string) error {
	c := x.config
	if !c.Adapts() {
		return errs.With(fmt.Errorf("the model of %s has no adapter: train one (adapt.lora), or give another format", x.from), errs.ErrOptions)
	}
	l := c.Adapt.LoRA
	a := pretrained.Adapter{Rank: l.Rank, Alpha: l.Alpha, Dropout: l.Dropout, Continues: x.state.Data.Tokenizer != nil && c.Data.Texts(), Weights: x.found.Snapshot}
	switch {
	case c.Model.IsLlama():
		a.Family = c.Model.Preset
	case c.Model.Preset == "gpt":
		a.Family = pretrained.GPT2
	default:
		x.note("adapter_model.safetensors has the names of this model, which no model of transformers has: PEFT loads it into a model with the same names")
	}
	for _, t := range x.found.Snapshot.Tensors() {
		if product, ok := strings.CutSuffix(t.Name, "."+models.LoRAIn); ok {
			a.Products = append(a.Products, product)
		}
	}
	return pretrained.WriteAdapter(ctx, dir, a)
}
