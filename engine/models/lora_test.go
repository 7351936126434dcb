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

// TestLoRAByHand compares output and gradients of an adapter with those of plain loops.
func TestLoRAByHand(t *testing.T) {
	const n, in, out, rank, alpha = 5, 4, 3, 2, 6.0
	s := models.Spec{
		Input: shape.F32(in), Target: shape.F32(out), Loss: "mse", LoRA: &models.LoRA{Rank: rank, Alpha: alpha, Targets: []string{"it"}},
		Layers: models.Stack{models.Named{Name: "it", Pos: at, Layer: models.Dense{Units: out}}},
	}
	g := train(t, s, adamW(), models.Size{Microbatch: n, Microbatches: 1, Batch: n})
	st := fresh(g, 1)
	if b := st["it.lora_B.weight"]; slices.ContainsFunc(b.F, func(x float64) bool { return x != 0 }) {
		t.Errorf("B begins with %v", b.F)
	}
	st["it.lora_B.weight"] = noise(3, shape.F32(out, rank))
	x, target := noise(1, shape.F32(n, in)), noise(2, shape.F32(n, out))
	vals := st.run(t, g, state{models.InputName: x, models.TargetName: target, models.BaseName: ref.Ints([]int32{0})}, nil)

	w, bias, a, b := st["it.weight"].F, st["it.bias"].F, st["it.lora_A.weight"].F, st["it.lora_B.weight"].F
	dA, dB := make([]float64, rank*in), make([]float64, out*rank)
	for i := range n {
		low := make([]float64, rank) // A·x
		for r := range rank {
			for k := range in {
				low[r] += a[r*in+k] * x.F[i*in+k]
			}
		}
		for o := range out {
			y := bias[o]
			for k := range in {
				y += w[o*in+k] * x.F[i*in+k]
			}
			for r := range rank {
				y += alpha / rank * b[o*rank+r] * low[r]
			}
			dy := 2 * (y - target.F[i*out+o]) // of the sum over terms
			for r := range rank {
				dB[o*rank+r] += alpha / rank * dy * low[r]
				for k := range in {
					dA[r*in+k] += alpha / rank * dy * b[o*rank+r] * x.F[i*in+k]
				}
			}
		}
	}
	grads := gradients(g)
	if len(grads) != 2 {
		t.Errorf("%d variables have gradients, expected A and B", len(grads))
	}
	agree(t, "the gradient of A", vals[grads["it.lora_A.weight"]].F, 1, dA, 1e-12)
	agree(t, "the gradient of B", vals[grads["it.lora_B.weight"]].F, 1, dB, 1e-12)
	for _, v := range g.Vars {
		if v.Role == graph.OptState && !strings.HasPrefix(v.Name, "it.lora_") {
			t.Errorf("%v is state of a frozen weight", v)
		}
	}
}

// lora is an adapter of rank 2.
func lora(targets ...string) *models.LoRA { return &models.LoRA{Rank: 2, Alpha: 8, Targets: targets} }

// adaptable are models and the products in them that may have an adapter, in order.
func adaptable() map[string]struct {
	spec     models.Spec
	products string
} {
	llama := models.Spec{
		Input: shape.I32(3), Target: shape.I32(3), Loss: "cross_entropy",
		Layers: models.Llama(models.LlamaOptions{Vocab: 5, Context: 3, Layers: 1, Heads: 2, KVHeads: 1, Width: 8, Hidden: 6, Eps: 1e-6, Theta: 100, Untied: true}, at),
	}
	return map[string]struct {
		spec     models.Spec
		products string
	}{
		"llama": {llama, "layers.0.self_attn.q_proj layers.0.self_attn.k_proj layers.0.self_attn.v_proj layers.0.self_attn.o_proj layers.0.mlp.gate_proj layers.0.mlp.up_proj layers.0.mlp.down_proj lm_head"},
		"gpt":   {gpt(models.GPTOptions{Vocab: 5, Context: 3, Layers: 1, Heads: 2, Width: 4}), "h.0.attn.c_attn h.0.attn.c_proj h.0.mlp.c_fc h.0.mlp.c_proj"},
		"mlp":   {models.Spec{Input: shape.F32(6), Target: shape.F32(2), Loss: "mse", Layers: models.MLP([]int{5}, "gelu", 2, at)}, "layers.0 layers.1"},
	}
}

// TestLoRAMerged: a model whose weights have the adapter's product added gives the same answers as the adapted one.
func TestLoRAMerged(t *testing.T) {
	for name, c := range adaptable() {
		t.Run(name, func(t *testing.T) {
			s := c.spec
			s.LoRA = lora("*")
			adapted, err := models.Predict(s, models.Size{Microbatch: 2})
			if err != nil {
				t.Fatal(err)
			}
			st := fresh(adapted, 1)
			var have []string
			inOut := map[string]bool{}
			for i, v := range adapted.Vars {
				if product, ok := strings.CutSuffix(v.Name, ".lora_B.weight"); ok {
					have = append(have, product)
					inOut[product] = v.Tagged(models.InOutTag)
					st[v.Name] = noise(uint64(i), v.Meta)
				}
			}
			if got := strings.Join(have, " "); got != c.products {
				t.Errorf("adapters of %s\nexpected %s", got, c.products)
			}
			plain, err := models.Predict(c.spec, models.Size{Microbatch: 2})
			if err != nil {
				t.Fatal(err)
			}
			in := state{models.InputName: noise(9, batch(2, c.spec.Input))}
			before := st.run(t, plain, in, nil)[plain.Outputs[0]].F
			want := st.run(t, adapted, in, nil)[adapted.Outputs[0]].F
			if worst := mostApart(before, want); worst < 1e-3 {
				t.Errorf("the adapter changes nothing: %.3g", worst)
			}
			for _, p := range have {
				w, a, b := st[p+".weight"], st[p+".lora_A.weight"], st[p+".lora_B.weight"]
				sum := make([]float32, len(w.F))
				for i, x := range w.F {
					sum[i] = float32(x)
				}
				s.LoRA.Merge(sum, narrow(a.F), narrow(b.F), inOut[p])
				for i, x := range sum {
					w.F[i] = float64(x)
				}
			}
			if worst := mostApart(st.run(t, plain, in, nil)[plain.Outputs[0]].F, want); worst > 1e-5 {
				t.Errorf("merged, answers are %.3g off", worst)
			}
		})
	}
}

func narrow(x []float64) []float32 {
	out := make([]float32, len(x))
	for i := range x {
		out[i] = float32(x[i])
	}
	return out
}

func mostApart(x, y []float64) (worst float64) {
	for i := range x {
		worst = max(worst, math.Abs(x[i]-y[i]))
	}
	return worst
}

// TestLoRATargets: names are whole, or from a dot on, with * and without _proj.
func TestLoRATargets(t *testing.T) {
	c := adaptable()["llama"]
	for target, want := range map[string]string{
		"q": "layers.0.self_attn.q_proj", "v_proj": "layers.0.self_attn.v_proj", "self_attn.o": "layers.0.self_attn.o_proj",
		"layers.0.mlp.*":           "layers.0.mlp.gate_proj layers.0.mlp.up_proj layers.0.mlp.down_proj",
		"lm_head":                  "lm_head",
		"[kv]_proj":                "layers.0.self_attn.k_proj layers.0.self_attn.v_proj",
		"layers.?.self_attn.k":     "layers.0.self_attn.k_proj",
		"layers.0.self_attn.q":     "layers.0.self_attn.q_proj",
		"layers.0.mlp.gate_proj":   "layers.0.mlp.gate_proj",
		"0.self_attn.v_proj":       "layers.0.self_attn.v_proj",
		"layers.0.self_attn.?_pro": "", "self": "", "q_proj.weight": "", "norm": "", "embed_tokens": "",
	} {
		s := c.spec
		s.LoRA = lora(target)
		g, err := models.Predict(s, models.Size{Microbatch: 1})
		if want == "" {
			if !errors.Is(err, models.ErrAdapt) || !strings.Contains(err.Error(), `"`+target+`" is the name of no dense layer or projection`) || !strings.Contains(err.Error(), "layers.0.self_attn.q_proj") {
				t.Errorf("%s: %v", target, err)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", target, err)
			continue
		}
		var have []string
		for _, v := range g.Vars {
			if product, ok := strings.CutSuffix(v.Name, ".lora_A.weight"); ok {
				have = append(have, product)
			}
		}
		if got := strings.Join(have, " "); got != want {
			t.Errorf("%s: adapters of %q, expected %q", target, got, want)
		}
	}
	gpt := adaptable()["gpt"].spec
	gpt.LoRA = lora("lm_head")
	if _, err := models.Predict(gpt, models.Size{Microbatch: 1}); !errors.Is(err, models.ErrAdapt) {
		t.Errorf("a head with another layer's weight: %v", err)
	}
}

// TestLoRAInMicrobatches: dropout on the adapter's way depends on the sample alone.
func TestLoRAInMicrobatches(t *testing.T) {
	c := adaptable()["llama"]
	s := c.spec
	s.LoRA = &models.LoRA{Rank: 2, Alpha: 8, Targets: []string{"q", "down"}, Dropout: 0.4}
	in := state{models.InputName: noise(1, batch(4, s.Input)), models.TargetName: noise(2, batch(4, s.Target))}
	whole := train(t, s, adamW(), models.Size{Microbatch: 4, Microbatches: 1, Batch: 4})
	half := train(t, s, adamW(), models.Size{Microbatch: 2, Microbatches: 2, Batch: 4})
	find(t, whole, "dropout")
	a, b := fresh(whole, 1), fresh(whole, 1)
	for range 3 {
		all := state{models.BaseName: ref.Ints([]int32{0}), models.InputName: in[models.InputName], models.TargetName: in[models.TargetName]}
		a.step(t, whole, all)
		cut(t, b, half, half, in, []int{2, 2})
	}
	compare(t, b, a)
}

// Stored matrices do not train by themselves. A model that computes has them without an adapter, too.
func TestFrozenAlone(t *testing.T) {
	s := adaptable()["mlp"].spec
	s.Frozen = shape.BFloat16
	z := models.Size{Microbatch: 2, Microbatches: 1, Batch: 2}
	if _, err := models.Train(s, adamW(), z); err == nil || !strings.Contains(err.Error(), "train an adapter beside them") {
		t.Error(err)
	}
	g, err := models.Predict(s, z)
	if err != nil {
		t.Fatal(err)
	}
	if !slices.ContainsFunc(g.Vars, func(v *graph.Value) bool { return v.Meta.DType == shape.BFloat16 }) {
		t.Errorf("all of %v are float32", g.Vars)
	}
}

// TestStoredHasTheNodesOfAllSizes: the graph of a smaller last batch has the nodes of a full one, also where its products
// have few rows.
func TestStoredHasTheNodesOfAllSizes(t *testing.T) {
	s := adaptable()["mlp"].spec
	s.Frozen = shape.Int8Block
	for _, build := range []func(models.Spec, models.Size) (*graph.Graph, error){models.Eval, models.Predict} {
		var kinds [2][]string
		for i, samples := range []int{50, 3} {
			g, err := build(s, models.Size{Microbatch: samples})
			if err != nil {
				t.Fatal(err)
			}
			for _, n := range g.Nodes {
				kinds[i] = append(kinds[i], n.Op.Kind())
			}
		}
		if !slices.Equal(kinds[0], kinds[1]) {
			t.Errorf("a graph of 50 samples has the nodes %v, one of 3 has %v", kinds[0], kinds[1])
		}
	}
}

// TestLoRAStored: a step beside a base in bfloat16 or int8 has the bits of one beside a float32 base of the same
// numbers. A product's float32 weight is read by that product alone, the next node, so that no weight is
// kept for the backward pass.
func TestLoRAStored(t *testing.T) {
	for _, as := range []shape.DType{shape.BFloat16, shape.Int8Block} {
		t.Run(as.String(), func(t *testing.T) { testLoRAStored(t, as) })
	}
}

func testLoRAStored(t *testing.T, as shape.DType) {
	const frozen = "llama: embed_tokens.weight layers.0.mlp.down_proj.weight layers.0.mlp.gate_proj.weight layers.0.mlp.up_proj.weight " +
		"layers.0.self_attn.k_proj.weight layers.0.self_attn.o_proj.weight layers.0.self_attn.q_proj.weight layers.0.self_attn.v_proj.weight lm_head.weight " +
		"gpt: h.0.attn.c_attn.weight h.0.attn.c_proj.weight h.0.mlp.c_fc.weight h.0.mlp.c_proj.weight wte.weight mlp: layers.0.weight layers.1.weight"
	var have []string
	for _, name := range []string{"llama", "gpt", "mlp"} {
		s := adaptable()[name].spec
		have = append(have, name+":")
		s.LoRA = lora("*")
		z := models.Size{Microbatch: 2, Microbatches: 1, Batch: 2}
		whole := train(t, s, adamW(), z)
		s.Frozen = as
		stored := train(t, s, adamW(), z)
		a, b := fresh(whole, 1), fresh(stored, 1)
		var names []string
		for _, v := range stored.Vars {
			if v.Meta.DType == as {
				names = append(names, v.Name)
				roundStored(t, as, a[v.Name])
				if !slices.Equal(a[v.Name].F, b[v.Name].F) {
					t.Errorf("%s begins with other numbers than float32 ones, rounded", v.Name)
				}
			}
		}
		slices.Sort(names)
		have = append(have, names...)
		in := state{models.BaseName: ref.Ints([]int32{0}), models.InputName: noise(1, batch(2, s.Input)), models.TargetName: noise(2, batch(2, s.Target))}
		for range 3 {
			a.step(t, whole, in)
			b.step(t, stored, in)
		}
		for _, v := range whole.Vars {
			if !slices.Equal(a[v.Name].F, b[v.Name].F) {
				t.Errorf("%s: %s differs", name, v.Name)
			}
		}
		readers := map[*graph.Value][]*graph.Node{}
		for _, n := range stored.Nodes {
			for _, v := range n.In {
				readers[v] = append(readers[v], n)
			}
		}
		for i, n := range stored.Nodes {
			if n.Op.Kind() != "cast" || n.In[0].Meta.DType != as {
				continue
			}
			if r := readers[n.Out[0]]; len(r) != 1 || r[0] != stored.Nodes[i+1] || r[0].Op.Kind() != "matmul" {
				t.Errorf("%s: %v is read by %v", name, n, r)
			}
		}
	}
	if got := strings.Join(have, " "); got != frozen {
		t.Errorf("stored as %v are\n%s\nexpected\n%s", as, got, frozen)
	}
}

// roundStored rounds the numbers of a matrix as a type stores them: bfloat16 by 2^-8 of each, int8 by 1/253 of
// the largest of 32 in a row.
func roundStored(t *testing.T, as shape.DType, a ref.Array) {
	t.Helper()
	for row := range slices.Chunk(a.F, a.Meta.Shape.Dim(-1)) {
		for block := range slices.Chunk(row, shape.BlockElems) {
			most := slices.Max(block)
			most = max(most, -slices.Min(block))
			scale := float64(ops.RoundBF16(float32(most) / 127))
			for i, x := range block {
				bound := most / 253
				if block[i] = math.RoundToEven(x/scale) * scale; as == shape.BFloat16 {
					block[i], bound = float64(ops.RoundBF16(float32(x))), math.Abs(x)/(1<<8)
				}
				if math.Abs(block[i]-x) > bound {
					t.Errorf("%v is rounded to %v", x, block[i])
				}
			}
		}
	}
}
