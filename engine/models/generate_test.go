package models_test

import (
	"errors"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/engine/models"
	"github.com/berth-ml/berth/engine/ops"
	"github.com/berth-ml/berth/engine/ops/ref"
	"github.com/berth-ml/berth/engine/shape"
)

// speaker is a small GPT with a vocabulary of 7.
func speaker() models.Spec {
	return models.Spec{Input: shape.I32(9), Target: shape.I32(9), Loss: "cross_entropy", Tokens: 7, Classes: 7, Seed: 3,
		Layers: models.GPT(models.GPTOptions{Vocab: 7, Context: 9, Layers: 2, Heads: 2, Width: 6, Dropout: 0.2}, at)}
}

func generate(t *testing.T, s models.Spec, rows int) *graph.Graph {
	t.Helper()
	g, err := models.Generate(s, models.GenerateSize{Rows: rows, Context: 9, Logits: true})
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// llama is a speaker of Llama's family, of which the second block sees the last 3 positions.
func llama() models.Spec {
	s := speaker()
	s.Layers = models.Llama(models.LlamaOptions{
		Vocab: 7, Context: 9, Layers: 2, Heads: 4, KVHeads: 2, Size: 4, Width: 6, Hidden: 10, Window: 3, Windowed: 1, Eps: 1e-5, Theta: 20, Bias: true, Dropout: 0.2,
		Scaling: ops.RotaryScaling{Kind: "linear", Factor: 2}}, at)
	return s
}

// recurrent is a speaker whose layers keep states.
func recurrent() models.Spec {
	s := speaker()
	s.Layers = models.Stack{models.Named{Name: "wte", Layer: models.Embedding{Vocab: 7, Width: 6}}, models.Named{Name: "gru", Layer: models.GRU{Units: 5}},
		models.Named{Name: "lstm", Layer: models.LSTM{Units: 4}}, models.Named{Name: "head", Layer: models.Dense{Units: 7}}}
	return s
}

// TestGenerateAgreesWithPredict: chunks of any size, and then single tokens, give the
// probabilities that a prediction of the whole text has.
func TestGenerateAgreesWithPredict(t *testing.T) {
	t.Run("attention", func(t *testing.T) { generatesAsPredicted(t, speaker()) })
	t.Run("recurrent", func(t *testing.T) { generatesAsPredicted(t, recurrent()) })
	t.Run("grouped", func(t *testing.T) { generatesAsPredicted(t, llama()) })
}

func generatesAsPredicted(t *testing.T, s models.Spec) {
	text := []int32{1, 5, 0, 6, 2, 2, 4, 3, 1}
	p, err := models.Predict(s, models.Size{Microbatch: 1})
	if err != nil {
		t.Fatal(err)
	}
	st := fresh(p, 4)
	whole := st.run(t, p, state{models.InputName: ref.Ints(text, 1, 9)}, nil)[p.Outputs[0]]
	one := generate(t, s, 1)
	for v, a := range fresh(one, 4) {
		if st[v].F == nil && st[v].I == nil {
			st[v] = a
		}
	}
	for rows := 1; rows <= 4; rows++ {
		prefill := generate(t, s, rows)
		for at := 0; at < len(text); {
			g := prefill
			if at >= 6 { // the rest is decoded
				g = one
			}
			count := min(g.Find(models.InputName).Meta.Shape[1], len(text)-at)
			chunk := ref.New(g.Find(models.InputName).Meta)
			copy(chunk.I, text[at:at+count])
			vals := st.step(t, g, state{
				models.InputName: chunk, models.ExtentName: ref.Ints([]int32{int32(at), int32(count), 0}, 1, 3),
				models.SampleAtName: ref.Ints([]int32{0}, 1), models.ShapingName: ref.Floats([]float64{0, 1}, 1, 2), // a temperature of 0
				models.ChoiceName: ref.Ints([]int32{0, 0, 0}, 1, 3), models.PenaltyName: ref.Floats([]float64{1}, 1)})
			at += count
			logits := vals[g.Find(models.GenerateLogits)].F
			agree(t, "probabilities", softmax(logits), 1, whole.F[(at-1)*7:at*7], 1e-12)
			best := slices.Index(logits, slices.Max(logits))
			if got := vals[g.Find(models.GenerateToken)].I[0]; int(got) != best {
				t.Errorf("chunks of %d: token %d after %d, expected %d", rows, got, at, best)
			}
		}
	}
}

func softmax(x []float64) []float64 {
	y, sum := make([]float64, len(x)), 0.0
	for i := range x {
		y[i] = math.Exp(x[i])
		sum += y[i]
	}
	for i := range y {
		y[i] /= sum
	}
	return y
}

// TestGenerateNarrowsAfterAttention: the head is computed for one row of a chunk.
func TestGenerateNarrowsAfterAttention(t *testing.T) {
	g := generate(t, speaker(), 4)
	if l := g.Find(models.GenerateLogits); !l.Meta.Shape.Equal(shape.Of(1, 1, 7)) || find(t, g, "last_row").Layer.Block != "block1" {
		t.Errorf("logits are %v", l)
	}
	for _, v := range g.Vars {
		if cache := strings.Contains(v.Name, ".cache."); cache != (v.Role == graph.Cache && v.Layer.Type == "attention") {
			t.Errorf("%v is a %v of %v", v, v.Role, v.Layer)
		}
	}
}

func TestModelsThatGenerateNoText(t *testing.T) {
	head := models.Named{Name: "head", Layer: models.Dense{Units: 7}}
	embed := models.Named{Name: "wte", Layer: models.Embedding{Vocab: 7, Width: 6}}
	for _, c := range []struct {
		layers []models.Layer
		want   string
	}{
		{models.Stack{embed, models.Named{Name: "it", Pos: at, Layer: models.Mean{Axes: []int{0}}}, head},
			`configs/x.yaml:14: layer 1 (mean "it"): a model with this layer cannot generate text: use only layers that work on each position alone, and attention, grouped_attention, lstm, gru or positional_embedding`},
		{models.Stack{embed, models.Named{Name: "r", Layer: models.Residual{Layers: models.Stack{models.Named{Name: "it", Pos: at, Layer: models.BatchNorm{}}}}}, head}, `layer 2 (batchnorm "it"): a model with this layer cannot generate text`},
		{models.Stack{embed, models.Named{Name: "it", Pos: at, Layer: models.PositionalEmbedding{Context: 8}}, head}, "9 positions are to be generated, but its context is 8"},
		{models.Stack{embed, models.Named{Name: "it", Pos: at, Layer: models.GroupedAttention{Heads: 2, Context: 8}}, head}, "9 positions are to be generated, but its context is 8"},
		{models.Stack{embed, models.Named{Name: "it", Pos: at, Layer: models.GroupedAttention{Heads: 2, Full: true}}, head}, "its positions see later ones, so that it cannot generate text"},
		{models.Stack{embed, models.Named{Name: "it", Pos: at, Layer: models.LSTM{Units: 5, Bidirectional: true}}, head}, "cannot generate text while last or bidirectional is true"},
		{models.Stack{embed, models.Named{Name: "it", Pos: at, Layer: models.Dense{Units: 5}}}, "its last layer must give one number for each of the 7 tokens"},
	} {
		s := speaker()
		s.Layers = c.layers
		_, err := models.Generate(s, models.GenerateSize{Rows: 4, Context: 9})
		if err == nil || !errors.Is(err, models.ErrModel) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("got %v, expected %s", err, c.want)
		}
	}
}
