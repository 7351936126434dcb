package models_test

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/engine/models"
	"github.com/berth-ml/berth/engine/ops"
	"github.com/berth-ml/berth/engine/optim"
	"github.com/berth-ml/berth/engine/shape"
)

// references are models as PyTorch ran them, their sizes from the files'
// metadata.
func references() map[string]struct {
	spec  models.Spec
	optim optim.Spec
	batch int
} {
	type reference = struct {
		spec  models.Spec
		optim optim.Spec
		batch int
	}
	mlp := models.Spec{
		Input: shape.F32(64), Target: shape.I32(), Loss: "cross_entropy",
		Layers: models.MLP([]int{32, 16}, "relu", 10, at),
	}
	cnn := models.Spec{
		Input: shape.F32(1, 8, 8), Target: shape.I32(), Loss: "cross_entropy",
		Layers: models.CNN([]int{8, 16}, 3, []int{32}, "relu", 10, at),
	}
	gpt := models.Spec{
		Input: shape.I32(16), Target: shape.I32(16), Loss: "cross_entropy",
		Layers: models.GPT(models.GPTOptions{Vocab: 65, Context: 16, Layers: 2, Heads: 2, Width: 32}, at),
	}
	lstm := models.Spec{
		Input: shape.I32(6), Target: shape.I32(6), Loss: "cross_entropy", Layers: models.Stack{
			models.Named{Name: "wte", Layer: models.Embedding{Vocab: 11, Width: 6}}, models.Named{Name: "rnn", Layer: models.LSTM{Units: 5, Bidirectional: true}},
			models.Named{Name: "out", Layer: models.Dense{Units: 11}}},
	}
	gru := models.Spec{
		Input: shape.F32(5, 3), Target: shape.I32(), Loss: "cross_entropy",
		Layers: models.Stack{models.Named{Name: "rnn", Layer: models.GRU{Units: 7, Last: true}}, models.Named{Name: "out", Layer: models.Dense{Units: 4}}},
	}
	llama := func(o models.LlamaOptions) models.Spec {
		o.Vocab, o.Context, o.Layers, o.Heads, o.Width, o.Hidden, o.Theta, o.Eps = 23, 7, 2, 4, 12, 20, 100, 1e-5
		return models.Spec{Input: shape.I32(7), Target: shape.I32(7), Loss: "cross_entropy", Layers: models.Llama(o, at)}
	}
	encoder := models.Spec{
		Input: shape.I32(7), Target: shape.I32(), Loss: "cross_entropy", Lengths: true, Layers: models.Stack{
			models.Named{Name: "table", Layer: models.Embedding{Vocab: 23, Width: 12}},
			models.Named{Name: "residual", Layer: models.Residual{Layers: models.Stack{
				models.Named{Name: "norm", Layer: models.RMSNorm{Eps: 1e-5}},
				models.Named{Name: "attention", Layer: models.GroupedAttention{Heads: 4, KVHeads: 2, Size: 4, Full: true, Window: 5}}}}},
			models.Named{Name: "gated", Layer: models.GatedMLP{Hidden: 20, Activation: "gelu"}}, models.Mean{Axes: []int{0}},
			models.Named{Name: "classes", Layer: models.Dense{Units: 4}}},
	}
	sgd := optim.Spec{Name: "momentum", Schedule: ops.LearningRate{Schedule: "constant", Base: 0.05}}
	return map[string]reference{
		"mlp-sgd": {mlp, sgd, 16}, "mlp-adamw": {mlp, adamW(), 16},
		"cnn-adamw": {cnn, adamW(), 8}, "gpt-adamw": {gpt, adamW(), 4},
		"lstm-adamw": {lstm, adamW(), 4}, "gru-adamw": {gru, adamW(), 4},
		"llama-adamw": {llama(models.LlamaOptions{KVHeads: 2, Size: 4, Untied: true,
			Scaling: ops.RotaryScaling{Kind: "llama3", Factor: 8, Low: 1, High: 4, Context: 32}}), adamW(), 3},
		"mistral-adamw": {llama(models.LlamaOptions{KVHeads: 1, Size: 4, Window: 3, Activation: "gelu_tanh",
			Scaling: ops.RotaryScaling{Kind: "linear", Factor: 2}}), adamW(), 3},
		"qwen2-adamw": {llama(models.LlamaOptions{Size: 6, Window: 4, Windowed: 1, Bias: true, Untied: true,
			Scaling: ops.RotaryScaling{Kind: "ntk", Factor: 3}}), adamW(), 3},
		"encoder-adamw": {encoder, adamW(), 3},
		"resnet18-sgd":  {classes(16, 12, models.ResNet(models.ResNetOptions{Depth: 18, Small: true, Width: 1, Outputs: 5}, at)), sgd, 6},
		"resnet50-sgd":  {classes(24, 32, models.ResNet(models.ResNetOptions{Depth: 50, Width: 1, Outputs: 5}, at)), sgd, 4},
		"vit-adamw":     {classes(12, 12, models.ViT(models.ViTOptions{Patch: 4, Layers: 2, Heads: 3, Width: 12, Outputs: 6}, at)), adamW(), 4},
		"groups-sgd":    {classes(11, 9, groups), sgd, 4},
	}
}

func TestModelsAgreeWithPyTorch(t *testing.T) {
	for name, r := range references() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := open(t, name)
			g := train(t, r.spec, r.optim, models.Size{Microbatch: r.batch, Microbatches: 1, Batch: r.batch, Ring: 10})
			st := fresh(g, 1)
			fillFrom(t, f, g, st)
			in := state{models.InputName: f.array("input", r.spec.Input.DType), models.TargetName: f.array("target", shape.Int32)}
			if r.spec.Lengths {
				in[models.LengthName] = f.array("lengths", shape.Int32)
			}
			scale := 1 / float64(r.batch*r.spec.Terms())
			losses := f.array("losses", shape.Float32).F
			for i := range losses {
				vals := st.step(t, g, in)
				if i > 0 {
					continue
				}
				agree(t, "logits", vals[find(t, g, "cross_entropy").In[0]].F, 1, f.array("logits", shape.Float32).F, 1e-5)
				for w, grad := range gradients(g) {
					agree(t, "gradient of "+w, vals[grad].F, scale, f.array("grad."+w, shape.Float32).F, 1e-5)
				}
			}
			for i, want := range losses {
				agree(t, fmt.Sprintf("loss %d", i), st[models.LossRing].F[i:i+1], 1, []float64{want}, 1e-4)
			}
			for _, x := range f.Tensors() { // running averages
				if w, ok := strings.CutPrefix(x.Name, "statistic."); ok {
					agree(t, "final "+w, st[w].F, 1, f.array(x.Name, shape.Float32).F, 1e-4)
				}
			}
			for w := range gradients(g) { // Adam steps along rounding errors where a gradient is 0, as of keys' biases
				if _, err := f.Lookup("final." + w); name == "resnet50-sgd" && err != nil {
					continue // which would take much room: the losses are those after steps
				}
				agree(t, "final "+w, st[w].F, 1, f.array("final."+w, shape.Float32).F, 1e-3)
			}
		})
	}
}

// fillFrom takes the weights of a file, whose names and shapes must be those
// of the graph's parameters, all of which must be trained.
func fillFrom(t *testing.T, f file, g *graph.Graph, st state) {
	t.Helper()
	grads := gradients(g)
	var have, want []string
	for _, v := range g.Vars {
		if v.Role != graph.Parameter {
			continue
		}
		have = append(have, fmt.Sprintf("%s %v", v.Name, v.Meta.Shape))
		if grads[v.Name] == nil {
			t.Errorf("%v is not trained", v)
		}
	}
	for _, x := range f.Tensors() {
		if name, ok := strings.CutPrefix(x.Name, "init."); ok {
			want = append(want, fmt.Sprintf("%s %v", name, shape.Shape(x.Shape)))
			st[name] = f.array(x.Name, shape.Float32)
		}
	}
	slices.Sort(have)
	slices.Sort(want)
	if !slices.Equal(have, want) {
		t.Fatalf("parameters are\n%s\nthe file has\n%s", strings.Join(have, "\n"), strings.Join(want, "\n"))
	}
}

// gpt is a model of those sizes with targets for each position.
func gpt(o models.GPTOptions) models.Spec {
	return models.Spec{
		Input: shape.I32(o.Context), Target: shape.I32(o.Context), Loss: "cross_entropy", Seed: 7,
		Layers: models.GPT(o, at),
	}
}

// parameters builds the model to predict, and counts.
func parameters(t *testing.T, s models.Spec) (map[string]shape.Shape, int) {
	t.Helper()
	g, err := models.Predict(s, models.Size{Microbatch: 1})
	if err != nil {
		t.Fatal(err)
	}
	shapes, n := map[string]shape.Shape{}, 0
	for _, v := range g.Vars {
		shapes[v.Name] = v.Meta.Shape
		n += v.Meta.Elems()
	}
	return shapes, n
}

func TestGPT2SmallIsLaidOutAsPublished(t *testing.T) {
	const d = 768
	have, n := parameters(t, gpt(models.GPTOptions{Vocab: 50257, Context: 1024, Layers: 12, Heads: 12, Width: d}))
	if n != 124_439_808 {
		t.Errorf("GPT-2 small has %d parameters, expected 124439808", n)
	}
	want := map[string]shape.Shape{
		"wte.weight": {50257, d}, "wpe.weight": {1024, d}, "ln_f.weight": {d}, "ln_f.bias": {d},
	}
	for i := range 12 {
		for name, s := range map[string]shape.Shape{
			"ln_1.weight": {d}, "ln_1.bias": {d}, "ln_2.weight": {d}, "ln_2.bias": {d},
			"attn.c_attn.weight": {d, 3 * d}, "attn.c_attn.bias": {3 * d},
			"attn.c_proj.weight": {d, d}, "attn.c_proj.bias": {d},
			"mlp.c_fc.weight": {d, 4 * d}, "mlp.c_fc.bias": {4 * d},
			"mlp.c_proj.weight": {4 * d, d}, "mlp.c_proj.bias": {d},
		} {
			want[fmt.Sprintf("h.%d.%s", i, name)] = s
		}
	}
	if len(have) != len(want) {
		t.Errorf("%d parameters, expected %d", len(have), len(want))
	}
	for name, s := range want {
		if !have[name].Equal(s) {
			t.Errorf("%s is %v, expected %v", name, have[name], s)
		}
	}
}

func TestTiedHeadSharesTheTable(t *testing.T) {
	o := models.GPTOptions{Vocab: 11, Context: 4, Layers: 1, Heads: 2, Width: 8}
	tied, n := parameters(t, gpt(o))
	o.Untied = true
	untied, m := parameters(t, gpt(o))
	if tied["lm_head.weight"] != nil || !untied["lm_head.weight"].Equal(shape.Of(11, 8)) || m-n != 11*8 {
		t.Errorf("tied has %d parameters, untied %d", n, m)
	}
	g := train(t, gpt(models.GPTOptions{Vocab: 11, Context: 4, Layers: 1, Heads: 2, Width: 8}), adamW(), models.Size{Microbatch: 1, Microbatches: 1, Batch: 1})
	readers := 0
	for _, node := range g.Nodes {
		if node.Phase == graph.Forward && slices.ContainsFunc(node.In, func(v *graph.Value) bool { return v.Name == "wte.weight" }) {
			readers++
		}
	}
	if readers != 2 {
		t.Errorf("the table is read %d times going forward, expected 2", readers)
	}
}

func TestBlocksOfPresets(t *testing.T) {
	specs := map[string]models.Spec{"mlp": references()["mlp-sgd"].spec, "cnn": references()["cnn-adamw"].spec, "gpt": references()["gpt-adamw"].spec}
	for name, want := range map[string]string{
		"mlp": "layers.0 layers.1 layers.2", "cnn": "conv1 conv2 fc1 fc2", "gpt": "embed block0 block1 head",
	} {
		g := train(t, specs[name], adamW(), models.Size{Microbatch: 2, Microbatches: 1, Batch: 2})
		var blocks []string
		for _, n := range g.Nodes {
			if n.Layer != nil && !slices.Contains(blocks, n.Layer.Block) {
				blocks = append(blocks, n.Layer.Block)
			}
		}
		if got := strings.Join(blocks, " "); got != want {
			t.Errorf("%s has blocks %s, expected %s", name, got, want)
		}
	}
}

// moments are mean and standard deviation, and the largest magnitude.
func moments(f []float64) (mean, std, largest float64) {
	for _, x := range f {
		mean += x / float64(len(f))
		largest = max(largest, math.Abs(x))
	}
	for _, x := range f {
		std += (x - mean) * (x - mean) / float64(len(f))
	}
	return mean, math.Sqrt(std), largest
}

// TestPrecisionIsThatOfAllProducts: bf16 is that of the gradients' products too, and of those that generate text.
func TestPrecisionIsThatOfAllProducts(t *testing.T) {
	for name, layers := range map[string]models.Stack{
		"mlp": models.MLP([]int{8}, "relu", 4, graph.Pos{}),
		"cnn": models.CNN([]int{2}, 3, nil, "relu", 4, graph.Pos{}),
		"gpt": models.GPT(models.GPTOptions{Layers: 1, Heads: 2, Width: 8, Context: 4, Vocab: 5}, graph.Pos{}),
	} {
		for _, bf16 := range []bool{false, true} {
			s := models.Spec{Input: shape.F32(6), Target: shape.I32(), Layers: layers, Loss: "cross_entropy", BF16: bf16}
			products := []string{"matmul"}
			switch name {
			case "cnn":
				s.Input = shape.F32(1, 6, 6)
				products = append(products, "conv2d", "conv2d_grad_x", "conv2d_grad_w")
				s.Layers = append(models.Stack{models.Named{Name: "first", Layer: models.Conv2D{Channels: 2, Kernel: 1}}}, s.Layers...)
			case "gpt":
				s.Input, s.Target = shape.I32(4), shape.I32(4)
				products = append(products, "attention", "attention_grad", "cached_attention", "cache_write")
			}
			g, err := models.Train(s, adamW(), models.Size{Microbatch: 3, Microbatches: 1, Batch: 3, Ring: 1})
			if err != nil {
				t.Fatal(err)
			}
			nodes := g.Nodes
			if name == "gpt" {
				g, err := models.Generate(s, models.GenerateSize{Rows: 2, Context: 4})
				if err != nil {
					t.Fatal(err)
				}
				nodes = append(nodes, g.Nodes...)
			}
			seen := map[string]bool{}
			for _, n := range nodes {
				kind := n.Op.Kind()
				if seen[kind] = true; slices.Contains(products, kind) && roundsFactors(n.Op) != bf16 {
					t.Errorf("%s with BF16 %v has %v", name, bf16, n)
				}
			}
			for _, kind := range products {
				if !seen[kind] {
					t.Errorf("%s has no %s", name, kind)
				}
			}
		}
	}
}

// roundsFactors reports whether a product rounds its factors to bfloat16, or a write what becomes such factors.
func roundsFactors(op graph.Op) bool {
	switch op := op.(type) {
	case ops.MatMul:
		return op.BF16
	case ops.Conv2D:
		return op.BF16
	case ops.Conv2DGradX:
		return op.Of.BF16
	case ops.Conv2DGradW:
		return op.Of.BF16
	case ops.Attention:
		return op.BF16
	case ops.AttentionGrad:
		return op.BF16
	case ops.CachedAttention:
		return op.BF16
	case ops.CacheWrite:
		return op.BF16
	}
	return false
}
