package models_test

import (
	"errors"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/berth-ml/berth/engine/models"
	"github.com/berth-ml/berth/engine/ops/ref"
	"github.com/berth-ml/berth/engine/shape"
)

// layerCase is a layer, with a sample of its input and of its output.
type layerCase struct {
	layer   models.Layer
	in, out shape.Meta
}

// cases have every type of layer at least once.
func cases() []layerCase {
	f, i := shape.F32, shape.I32
	cs := []layerCase{
		{models.Dense{Units: 5}, f(3), f(5)},
		{models.Dense{Units: 5, In: 3, NoBias: true, Activation: "gelu"}, f(4, 3), f(4, 5)},
		{models.Dense{Units: 5, InOut: true, Std: 0.1}, f(3), f(5)},
		{models.Conv2D{Channels: 6, Kernel: 3}, f(2, 7, 5), f(6, 5, 3)},
		{models.Conv2D{Channels: 6, Kernel: 3, Stride: 2, Padding: 1, Groups: 2, NoBias: true, Activation: "relu"}, f(2, 7, 5), f(6, 4, 3)},
		{models.Conv2D{Channels: 4, Kernel: 3, Padding: models.Same, Dilation: 2, Std: 0.1}, f(2, 7, 5), f(4, 7, 5)},
		{models.Conv2D{Channels: 4, Kernel: 3, Stride: 2, Padding: 1, Dilation: 3}, f(2, 9, 8), f(4, 3, 2)},
		{models.Attention{Heads: 2, Rate: 0.1}, f(4, 6), f(4, 6)},
		{models.GroupedAttention{Heads: 4, KVHeads: 2, Size: 6, Base: 100, Bias: true, Rate: 0.1}, f(4, 6), f(4, 6)},
		{models.GroupedAttention{Heads: 3, KVHeads: 1, Window: 2, Full: true}, f(4, 6), f(4, 6)},
		{models.GroupedAttention{Heads: 2, Base: 100, OutBias: true, Context: 4, Std: 0.1}, f(4, 8), f(4, 8)},
		{models.GatedMLP{Hidden: 5}, f(4, 6), f(4, 6)},
		{models.GatedMLP{Hidden: 5, Activation: "gelu", Bias: true}, f(6), f(6)},
		{models.RMSNorm{}, f(4, 6), f(4, 6)},
		{models.LSTM{Units: 5}, f(4, 6), f(4, 5)},
		{models.LSTM{Units: 5, Last: true, Bidirectional: true}, f(4, 6), f(10)},
		{models.GRU{Units: 5, NoBias: true}, f(1, 6), f(1, 5)},
		{models.GRU{Units: 5, Bidirectional: true}, f(4, 6), f(4, 10)},
		{models.Embedding{Vocab: 5, Width: 6}, i(4), f(4, 6)},
		{models.PositionalEmbedding{Context: 4}, f(4, 6), f(4, 6)},
		{models.PositionalEmbedding{Context: 9}, f(4, 6), f(4, 6)},
		{models.LayerNorm{}, f(4, 6), f(4, 6)},
		{models.BatchNorm{}, f(6), f(6)},
		{models.BatchNorm{}, f(2, 3, 3), f(2, 3, 3)},
		{models.GroupNorm{Groups: 2}, f(6), f(6)},
		{models.GroupNorm{Groups: 2, Eps: 1e-3}, f(4, 3, 2), f(4, 3, 2)},
		{models.Dropout{Rate: 0.3}, f(2, 3, 3), f(2, 3, 3)},
		{models.MaxPool{Kernel: 2}, f(2, 7, 6), f(2, 3, 3)},
		{models.MaxPool{Kernel: 3, Stride: 1, Padding: 1}, f(2, 7, 6), f(2, 7, 6)},
		{models.AvgPool{Kernel: 3}, f(2, 7, 6), f(2, 2, 2)},
		{models.AdaptiveAvgPool{Size: []int{3, 3}}, f(2, 7, 6), f(2, 3, 3)},
		{models.AdaptiveAvgPool{Size: []int{9, 6}}, f(2, 7, 6), f(2, 9, 6)},
		{models.GlobalAvgPool{}, f(2, 7, 6), f(2)},
		{models.Flatten{}, f(2, 3, 4), f(24)},
		{models.Flatten{}, f(), f(1)},
		{models.Reshape{Shape: []int{2, -1}}, f(12), f(2, 6)},
		{models.Reshape{Shape: []int{1}}, f(), f(1)},
		{models.Transpose{Perm: []int{2, 0, 1}}, f(2, 3, 4), f(4, 2, 3)},
		{models.Slice{Start: []int{0, 1}, Stop: []int{2, 3}}, f(2, 4), f(2, 2)},
		{models.Residual{Layers: models.Stack{models.Dense{Units: 3}}}, f(3), f(3)},
		{models.Softmax{}, f(3), f(3)},
		{models.Sum{Axes: []int{0}}, f(3, 2), f(2)},
		{models.Mean{Axes: []int{1, 0}, Keep: true}, f(3, 2), f(1, 1)},
		{models.Max{Axes: []int{1}}, f(3, 2), f(3)},
		{models.Affine{Scale: 2, Shift: -1}, f(3), f(3)},
		{models.Broadcast{Shape: []int{4, 2, 3}}, f(1, 3), f(4, 2, 3)},
		{models.Concat{Axis: 1, Layers: models.Stack{models.Dense{Units: 4}}}, f(2, 3), f(2, 7)},
		{models.LogSoftmax{}, f(4, 3), f(4, 3)},
	}
	for _, name := range []string{"relu", "gelu", "gelu_tanh", "silu", "sigmoid", "tanh", "exp", "neg", "abs", "square", "rsqrt"} {
		cs = append(cs, layerCase{models.ByName(name, nil, nil), f(4, 3), f(4, 3)})
	}
	return append(cs,
		layerCase{models.Log{}, f(3), f(3)},
		layerCase{models.Sqrt{}, f(3), f(3)})
}

// typeOf is the type of a layer.
func typeOf(l models.Layer) string { return models.Named{Layer: l}.Type() }

// around is a trainable model with the layer in it. The layers before it give
// positive numbers, so that any layer has a gradient.
func around(c layerCase) models.Spec {
	l := models.Named{Name: "it", Pos: at, Layer: c.layer}
	return models.Spec{
		Input: c.in, Target: shape.F32(2), Loss: "mse", Seed: 3,
		Layers: models.Stack{l, models.Named{Name: "flat", Layer: models.Flatten{}}, models.Named{Name: "last", Layer: models.Dense{Units: 2}}},
	}
}

func TestEveryLayerTypeBuildsAndRuns(t *testing.T) {
	seen := map[string]bool{}
	for _, c := range cases() {
		seen[typeOf(c.layer)] = true
		s := around(c)
		alone := s
		alone.Layers, alone.Target = s.Layers[:1], c.out
		g, err := models.Predict(alone, models.Size{Microbatch: 3})
		if err != nil {
			t.Errorf("%s: %v", typeOf(c.layer), err)
			continue
		}
		if got, want := g.Outputs[0].Meta, batch(3, c.out); !got.Equal(want) {
			t.Errorf("%s of %v gives %v, expected %v", typeOf(c.layer), c.in, got, want)
		}
		full := train(t, s, adamW(), models.Size{Microbatch: 3, Microbatches: 1, Batch: 3})
		st := fresh(full, 1)
		in := state{models.InputName: positive(batch(3, c.in)), models.TargetName: noise(2, shape.F32(3, 2)), models.BaseName: noise(0, shape.I32())}
		st.step(t, full, in)
		for name, a := range st {
			for _, x := range a.F {
				if math.IsNaN(x) || math.IsInf(x, 0) {
					t.Fatalf("%s: %s has %v after a step", typeOf(c.layer), name, x)
				}
			}
		}
		if _, err := models.Eval(s, models.Size{Microbatch: 3}); err != nil {
			t.Errorf("%s: %v", typeOf(c.layer), err)
		}
	}
	for _, name := range allTypes(t) {
		if !seen[name] {
			t.Errorf("no case for layer type %s", name)
		}
	}
}

// Whatever a sample is, the answers about others are the same: a layer whose Takes lets in an
// input without the axis that it works over would work over the samples.
func TestSamplesStayApart(t *testing.T) {
	const samples, changed = 3, 1
	scalars := 0
	for _, c := range cases() {
		for _, in := range []shape.Meta{c.in, shape.F32()} {
			x := positive(batch(samples, in))
			before, err := outputOf(t, c.layer, x)
			if err != nil {
				if in.Shape.Rank() > 0 || !errors.Is(err, models.ErrModel) {
					t.Errorf("%s: %v", typeOf(c.layer), err)
				}
				continue
			}
			if in.Shape.Rank() == 0 {
				scalars++
			}
			after, err := outputOf(t, c.layer, withOther(x, changed, samples))
			if err != nil {
				t.Fatal(err)
			}
			if i := otherPart(before, after, samples, changed); i >= 0 {
				t.Errorf("%s of samples %v: sample %d changed, and with it the answer about sample %d; does it take samples without the axis that it works over (Takes)?", typeOf(c.layer), in, changed, i)
			}
		}
	}
	if scalars < 10 {
		t.Errorf("only %d layers took a sample without axes", scalars)
	}
}

// What a Positionwise layer makes of a position does not depend on other ones.
func TestPositionsStayApart(t *testing.T) {
	seen := map[string]bool{}
	for _, c := range cases() {
		if !models.Positionwise(typeOf(c.layer)) {
			continue
		}
		in := c.in
		if in.DType == shape.Float32 && in.Shape.Rank() < 2 {
			in = batch(4, in) // its axis is that of the features
		}
		positions := in.Shape[0]
		changed := positions / 2
		x := positive(batch(1, in))
		before, err := outputOf(t, c.layer, x)
		if err != nil {
			t.Errorf("%s: %v", typeOf(c.layer), err)
			continue
		}
		after, err := outputOf(t, c.layer, withOther(x, changed, positions))
		if err != nil {
			t.Fatal(err)
		}
		if i := otherPart(before, after, positions, changed); i >= 0 {
			t.Errorf("%s of a sequence %v: position %d changed, and with it the output of position %d: it is not Positionwise", typeOf(c.layer), in, changed, i)
		}
		seen[typeOf(c.layer)] = true
	}
	for _, name := range []string{"dense", "embedding", "layernorm", "residual", "relu"} {
		if !seen[name] {
			t.Errorf("%s was not tried", name)
		}
	}
}

// positive is noise above 0, for layers such as log, or tokens.
func positive(m shape.Meta) ref.Array {
	a := noise(1, m)
	for i, x := range a.F {
		a.F[i] = 0.1 + math.Abs(x)
	}
	return a
}

// withOther is x with other numbers in one of its parts, which are equal ranges of it.
func withOther(x ref.Array, part, parts int) ref.Array {
	y := ref.Array{Meta: x.Meta, F: slices.Clone(x.F), I: slices.Clone(x.I)}
	size := x.Meta.Elems() / parts
	for i := part * size; i < (part+1)*size; i++ {
		if y.F != nil {
			y.F[i] = 7*y.F[i] + float64(i)
		} else {
			y.I[i] = (y.I[i] + 1) % 5
		}
	}
	return y
}

// otherPart is the first part, but for the changed one, in which two outputs differ; -1: none.
func otherPart(before, after ref.Array, parts, changed int) int {
	size := len(before.F) / parts
	for i := range parts {
		if i != changed && !slices.Equal(before.F[i*size:(i+1)*size], after.F[i*size:(i+1)*size]) {
			return i
		}
	}
	return -1
}

// allTypes reads the types out of the error that lists them.
func allTypes(t *testing.T) []string {
	_, err := models.Predict(models.Spec{Input: shape.F32(2), Target: shape.F32(2), Loss: "mse", Layers: models.Stack{models.Named{Name: "it", Pos: at, Layer: models.ByName("rnn", nil, nil)}}}, models.Size{Microbatch: 1})
	if err == nil {
		t.Fatal("a layer of type rnn was built")
	}
	_, list, ok := strings.Cut(err.Error(), `configs/x.yaml:14: layer 0 (rnn "it"): no layer type "rnn": there are `)
	if !ok || !errors.Is(err, models.ErrModel) {
		t.Fatalf("unexpected: %v", err)
	}
	return strings.Split(list, ", ")
}

// mistake is a layer that cannot take an input, with the text of the error.
type mistake struct {
	layer models.Layer
	in    shape.Meta
	want  string
}

func mistakes() []mistake {
	f, i := shape.F32, shape.I32
	const toRows = "it takes [batch,features] or [batch,time,features]; put a flatten layer before it"
	const toImages = "it takes images [batch,channels,height,width]; put a reshape layer before it"
	const toSequence = "it takes sequences [batch,time,width]; put an embedding or a reshape layer before it"
	const toFeatures = "it takes [batch,…,features]; put a reshape layer with a shape such as [1] before it"
	const embed = "which are tokens: put an embedding layer before it"
	cs := []mistake{
		{models.Dense{Units: 5}, f(1, 8, 8), "its input is f32[3,1,8,8]: " + toRows},
		{models.Dense{Units: 5}, f(), "its input is f32[3]: " + toRows},
		{models.Dense{Units: 5}, i(8), "its input is i32[3,8], " + embed},
		{models.Dense{}, f(8), "units is 0: give it a whole number of at least 1"},
		{models.Dense{Units: 5, In: 64}, f(128), "input has 128 features, weight expects 64"},
		{models.Dense{Units: 5, Activation: "rellu"}, f(8), `activation is "rellu": use one of relu, gelu, gelu_tanh, silu, sigmoid, tanh`},
		{models.Dense{Units: 5, Tied: "wte.weight"}, f(8), `tied to "wte.weight", which no earlier layer declares: name a weight [units,features] of one`},
		{models.Conv2D{Channels: 4, Kernel: 3}, f(64), "its input is f32[3,64]: " + toImages},
		{models.Conv2D{Channels: 4, Kernel: 3, Groups: 3}, f(3, 8, 8), "groups: 3 groups do not divide 4 channels; use a divisor"},
		{models.Conv2D{Channels: 4, Kernel: 3, Groups: 2}, f(3, 8, 8), "2 groups do not divide 3 input and 4 output channels: choose a divisor of both"},
		{models.Conv2D{Channels: 4, Kernel: 2, Padding: models.Same}, f(3, 8, 8), "padding: same needs an odd kernel, but it is 2; use an odd kernel, or a number"},
		{models.Conv2D{Channels: 2, Kernel: 3, Padding: -2}, f(1, 9, 9), "padding is -2: give it a whole number of at least 0"},
		{models.Attention{Heads: 2, Rate: 1.5}, f(4, 6), "rate is 1.5: give it a number of at least 0 and below 1"},
		{models.Dropout{Rate: 1}, f(4), "rate is 1: give it a number of at least 0 and below 1"},
		{models.Conv2D{Channels: 4, Kernel: 5, Padding: 1}, f(1, 8, 2), "a kernel of 5 does not fit images of width 2 with padding 1: lower kernel or raise padding"},
		{models.Conv2D{Channels: 4, Kernel: 3, Dilation: 4}, f(1, 9, 8), "a kernel of 9 does not fit images of width 8 with padding 0: lower kernel or raise padding"},
		{models.Conv2D{Channels: 4, Kernel: 3, Dilation: -1}, f(1, 9, 8), "dilation is -1: give it a whole number of at least 1"},
		{models.Conv2D{Kernel: 3}, f(1, 8, 8), "channels is 0: give it a whole number of at least 1"},
		{models.Conv2D{Channels: 4}, f(1, 8, 8), "kernel is 0: give it a whole number of at least 1"},
		{models.Attention{Heads: 4}, f(6), "its input is f32[3,6]: " + toSequence},
		{models.Attention{Heads: 4}, f(5, 6), "4 heads do not divide a width of 6: use a divisor"},
		{models.GroupedAttention{Heads: 4}, f(6), "its input is f32[3,6]: " + toSequence},
		{models.GroupedAttention{Heads: 4}, f(5, 6), "4 heads do not divide a width of 6: use a divisor, or give the size of a head"},
		{models.GroupedAttention{Heads: 4, KVHeads: 3}, f(5, 8), "4 heads of queries cannot share 3 of keys and values: use a divisor"},
		{models.GroupedAttention{Heads: 2, Base: 10}, f(5, 6), "heads of 3 numbers cannot turn with their positions, which takes pairs: use an even size"},
		{models.GroupedAttention{Heads: 2, Context: 4}, f(5, 6), "its input has 5 positions, but its context is 4: raise context or shorten the samples"},
		{models.GatedMLP{}, f(6), "hidden is 0: give it a whole number of at least 1"},
		{models.RMSNorm{}, i(4), "its input is i32[3,4], " + embed},
		{models.LSTM{Units: 4}, f(6), "its input is f32[3,6]: " + toSequence},
		{models.LSTM{}, f(5, 6), "units is 0: give it a whole number of at least 1"},
		{models.GRU{Units: 4}, f(0, 6), "its input f32[0,6] has no positions: give it at least one"},
		{models.Embedding{Vocab: 5, Width: 6}, f(4), "its input is f32[3,4]: it takes tokens, which are whole numbers (i32); use a dense layer for measured numbers, or data of tokens"},
		{models.Embedding{Width: 6}, i(4), "vocab is 0: give it a whole number of at least 1"},
		{models.PositionalEmbedding{Context: 4}, f(6), "its input is f32[3,6]: " + toSequence},
		{models.PositionalEmbedding{Context: 4}, f(5, 6), "its input has 5 positions, but its context is 4: raise context or shorten the samples"},
		{models.LayerNorm{}, f(), "its input is f32[3]: " + toFeatures},
		{models.LayerNorm{}, i(4), "its input is i32[3,4], " + embed},
		{models.BatchNorm{}, f(), "its input is f32[3]: it takes [batch,channels,…]; put a reshape layer before it"},
		{models.BatchNorm{}, i(4), "its input is i32[3,4], " + embed},
		{models.GroupNorm{Groups: 2}, f(), "its input is f32[3]: it takes [batch,channels,…]; put a reshape layer before it"},
		{models.GroupNorm{Groups: 4}, f(6, 2, 2), "4 groups do not divide 6 channels: use a divisor"},
		{models.GroupNorm{}, f(6, 2, 2), "groups is 0: give it a whole number of at least 1"},
		{models.Dropout{Rate: 0.5}, i(4), "its input is i32[3,4], " + embed},
		{models.MaxPool{Kernel: 2}, f(4), "its input is f32[3,4]: " + toImages},
		{models.MaxPool{Kernel: 9}, f(1, 8, 8), "a kernel of 9 does not fit images of height 8 with padding 0: lower kernel or raise padding"},
		{models.AvgPool{Kernel: 2}, f(4), "its input is f32[3,4]: " + toImages},
		{models.AvgPool{Kernel: 2, Padding: 2}, f(1, 8, 8), "padding: 2 is more than half the kernel of 2; lower it"},
		{models.AdaptiveAvgPool{Size: []int{2, 2}}, f(4), "its input is f32[3,4]: " + toImages},
		{models.AdaptiveAvgPool{Size: []int{2}}, f(1, 8, 8), "size: [2] is no height and width of at least 1"},
		{models.AdaptiveAvgPool{Size: []int{3, 0}}, f(1, 8, 8), "size: [3,0] is no height and width of at least 1"},
		{models.GlobalAvgPool{}, f(4), "its input is f32[3,4]: " + toImages},
		{models.Reshape{Shape: []int{3, 3}}, f(8), "a sample is f32[8], 8 numbers, which do not fill shape [3,3]: change shape, in which one axis may be -1"},
		{models.Reshape{Shape: []int{3, -1}}, f(8), "a sample is f32[8], 8 numbers, which do not fill shape [3,-1]: change shape, in which one axis may be -1"},
		{models.Reshape{Shape: []int{-1, -1}}, f(8), "a sample is f32[8], 8 numbers, which do not fill shape [-1,-1]: change shape, in which one axis may be -1"},
		{models.Transpose{Perm: []int{1, 0}}, f(2, 3, 4), "a sample is f32[2,3,4], perm is [1,0]: name each of its 3 axes once, from 0"},
		{models.Transpose{Perm: []int{1, 1}}, f(2, 3), "a sample is f32[2,3], perm is [1,1]: name each of its 2 axes once, from 0"},
		{models.Slice{Start: []int{0}, Stop: []int{1}}, f(2, 3), "a sample is f32[2,3], start is [0] and stop [1]: give one number for each of its 2 axes"},
		{models.Slice{Start: []int{0, 1}, Stop: []int{2, 9}}, f(2, 3), "a sample is f32[2,3], start is 1 and stop 9 for axis 1: expected 0 <= start < stop <= 3"},
		{models.Residual{Layers: models.Stack{models.Named{Name: "in", Layer: models.Dense{Units: 4}}}}, f(3), "its layers turn f32[3,3] into f32[3,4]: they must keep the shape, so that it can be added to the input"},
		{models.Sum{Axes: []int{2}}, f(3, 2), "a sample is f32[3,2], axes are [2]: name axes of it once, from 0"},
		{models.Mean{Axes: []int{1, 1}}, f(3, 2), "a sample is f32[3,2], axes are [1,1]: name axes of it once, from 0"},
		{models.Max{}, f(3, 2), "axes is empty: name at least one axis of a sample, from 0"},
		{models.Sum{Axes: []int{0}}, i(3), "its input is i32[3,3], " + embed},
		{models.Affine{}, i(3), "its input is i32[3,3], " + embed},
		{models.Broadcast{Shape: []int{4, 3}}, f(2), "a sample is f32[2], which does not stretch to [4,3]: only axes of 1, and new ones in front, do"},
		{models.Concat{}, f(3), "it has no layers: list at least one"},
		{models.Concat{Axis: 0, Layers: models.Stack{models.Dense{Units: 4}}}, f(2, 3), "its layers turn a sample f32[2,3] into f32[2,4]: all axes but axis 0 must agree"},
		{models.Residual{}, f(3), "it has no layers: list at least one"},
		{models.Residual{Layers: models.Stack{models.Relu{}}}, i(3), "its input is i32[3,3], " + embed},
		{models.Softmax{}, f(), "its input is f32[3]: " + toFeatures},
		{models.LogSoftmax{}, i(3), "its input is i32[3,3], " + embed},
	}
	for _, name := range []string{"relu", "gelu", "gelu_tanh", "silu", "sigmoid", "tanh", "exp", "log", "sqrt", "neg", "abs", "square", "rsqrt"} {
		cs = append(cs, mistake{models.ByName(name, nil, nil), i(4), "its input is i32[3,4], " + embed})
	}
	return cs
}

func TestWrongLayersSayWhatToDo(t *testing.T) {
	seen := map[string]bool{"flatten": true} // takes anything
	for _, c := range mistakes() {
		seen[typeOf(c.layer)] = true
		want := `configs/x.yaml:14: layer 0 (` + typeOf(c.layer) + ` "it"): ` + c.want
		_, err := models.Train(around(layerCase{layer: c.layer, in: c.in}), adamW(), models.Size{Microbatch: 3, Microbatches: 1, Batch: 3, Ring: 1})
		if err == nil || err.Error() != want || !errors.Is(err, models.ErrModel) {
			t.Errorf("got      %v\nexpected %s", err, want)
		}
	}
	for _, name := range allTypes(t) {
		if !seen[name] {
			t.Errorf("no mistake with layer type %s", name)
		}
	}
}

// TestWhatOnlyOpsNotice: a rule of an op is broken after a layer's own checks,
// so building goes on from a value without dimensions.
func TestWhatOnlyOpsNotice(t *testing.T) {
	clash := models.Residual{Layers: models.Stack{
		models.Named{Name: "a.c_attn", Layer: models.Dense{Units: 6}}, models.Named{Name: "a", Pos: at, Layer: models.Attention{Heads: 2}},
	}}
	for _, c := range []mistake{
		{clash, shape.F32(4, 6), `layer 2 (attention "a"): variable "a.c_attn.weight" is declared twice`},
	} {
		_, err := models.Train(around(layerCase{layer: c.layer, in: c.in}), adamW(), models.Size{Microbatch: 3, Microbatches: 2, Batch: 6, Ring: 1})
		if want := "configs/x.yaml:14: " + c.want; err == nil || err.Error() != want {
			t.Errorf("got      %v\nexpected %s", err, want)
		}
	}
}
