package models_test

import (
	"strings"
	"testing"

	"github.com/berth-ml/berth/engine/models"
	"github.com/berth-ml/berth/engine/ops/ref"
	"github.com/berth-ml/berth/engine/shape"
)

// TestPackedAgreesWithAlone checks that sequences that share a sample have the loss and the gradients that they have alone.
func TestPackedAgreesWithAlone(t *testing.T) {
	llama := lines()
	llama.Layers = models.Llama(models.LlamaOptions{Vocab: 7, Context: 9, Layers: 2, Heads: 2, KVHeads: 1, Width: 8, Hidden: 8, Eps: 1e-6, Theta: 10000, Activation: "silu"}, at)
	for name, s := range map[string]models.Spec{"gpt": lines(), "llama": llama} {
		t.Run(name, func(t *testing.T) {
			targets := func(i, j int) int32 { return int32(2*i+j) % 3 }
			want, grads := stepOf(t, s, 9, [][]int32{{1, 5, 0, 6, 2}, {3, 3, 4}}, targets, func(int) int32 { return 0 })
			s.Masked, s.Packed = true, true
			o := adamW()
			o.ClipNorm, o.GradNorm = 1e9, true
			g := train(t, s, o, models.Size{Microbatch: 2, Microbatches: 1, Batch: 2, Ring: 1, Positions: 9})
			in, lengths, positions, target := ref.New(shape.I32(2, 9)), ref.Ints([]int32{8, 0}, 2), ref.New(shape.I32(2, 9)), ref.New(shape.I32(2, 9))
			copy(in.I, []int32{1, 5, 0, 6, 2, 3, 3, 4})
			copy(positions.I, []int32{0, 1, 2, 3, 4, 0, 1, 2})
			for i := range target.I {
				target.I[i] = -1
			}
			copy(target.I, []int32{0, 1, 2, 0, 1, 2, 0, 1})
			st := fresh(g, 4)
			vals := st.step(t, g, state{models.InputName: in, models.LengthName: lengths, models.PositionName: positions, models.TargetName: target, models.BaseName: ref.New(shape.I32())})
			agree(t, "the loss", st[models.LossRing].F, 1, want[models.LossRing].F, 1e-9)
			for name, v := range gradients(g) {
				agree(t, "the gradient of "+name, vals[v].F, 1.0/8, grads[name], 1e-9)
			}
		})
	}
}

// TestPackedRefused checks that a layer that would mix what shares a sample is refused.
func TestPackedRefused(t *testing.T) {
	s := recurring()
	s.Masked, s.Packed = true, true
	_, err := models.Train(s, adamW(), models.Size{Microbatch: 2, Microbatches: 1, Batch: 2, Ring: 1})
	if want := `(lstm "lstm"): it would mix the conversations that share a sample`; err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("%v, want %q", err, want)
	}
}
