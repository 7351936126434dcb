package models_test

import (
	"maps"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/berth-ml/berth/engine/models"
	"github.com/berth-ml/berth/engine/ops/ref"
	"github.com/berth-ml/berth/engine/shape"
)

// lines is a small GPT for sequences of different lengths, which predicts each next token.
func lines() models.Spec {
	s := speaker()
	s.Layers = models.GPT(models.GPTOptions{Vocab: 7, Context: 9, Layers: 2, Heads: 2, Width: 6}, at)
	s.Lengths = true
	return s
}

// recurring is lines with an lstm in place of attention.
func recurring() models.Spec {
	s := lines()
	s.Layers = models.Stack{
		models.Named{Name: "table", Pos: at, Layer: models.Embedding{Vocab: 7, Width: 5}},
		models.Named{Name: "lstm", Pos: at, Layer: models.LSTM{Units: 6}},
		models.Named{Name: "head", Pos: at, Layer: models.Dense{Units: 7}},
	}
	return s
}

// fromBothEnds gives each sequence a class, by the last states of two directions.
func fromBothEnds() models.Spec {
	s := recurring()
	s.Target, s.Classes = shape.I32(), 3
	s.Layers = models.Stack{s.Layers[0],
		models.Named{Name: "gru", Pos: at, Layer: models.GRU{Units: 4, Bidirectional: true}}, models.Named{Name: "lstm", Pos: at, Layer: models.LSTM{Units: 5, Last: true, Bidirectional: true}},
		models.Named{Name: "classes", Pos: at, Layer: models.Dense{Units: 3}}}
	return s
}

// reviews is a model that gives each sequence a class, by the mean of its positions.
func reviews() models.Spec {
	s := lines()
	s.Target, s.Classes = shape.I32(), 3
	n := len(s.Layers)
	s.Layers = append(s.Layers[:n-1],
		models.Named{Name: "mean", Pos: at, Layer: models.Mean{Axes: []int{0}}},
		models.Named{Name: "classes", Pos: at, Layer: models.Dense{Units: 3}})
	return s
}

// largest is reviews with the largest of each feature, after features of two kinds were joined.
func largest() models.Spec {
	s := reviews()
	n := len(s.Layers) - 2
	s.Layers = append(s.Layers[:n:n],
		models.Named{Name: "both", Pos: at, Layer: models.Concat{Axis: 1, Layers: models.Stack{models.Named{Name: "more", Pos: at, Layer: models.Dense{Units: 2}}}}},
		models.Named{Name: "max", Pos: at, Layer: models.Max{Axes: []int{0}}},
		models.Named{Name: "classes", Pos: at, Layer: models.Dense{Units: 3}})
	return s
}

// series are sequences of 2 numbers a position, with 3 numbers to tell at each.
func series() models.Spec {
	s := lines()
	s.Input, s.Target, s.Loss, s.Classes, s.Tokens = shape.F32(9, 2), shape.F32(9, 3), "mse", 0, 0
	s.Layers = models.Stack{
		models.Named{Name: "lstm", Pos: at, Layer: models.LSTM{Units: 6}},
		models.Named{Name: "head", Pos: at, Layer: models.Dense{Units: 3}},
	}
	return s
}

// summed is series with 2 numbers for each sequence.
func summed() models.Spec {
	s := series()
	s.Target = shape.F32(2)
	s.Layers = models.Stack{
		models.Named{Name: "gru", Pos: at, Layer: models.GRU{Units: 4, Last: true}},
		models.Named{Name: "head", Pos: at, Layer: models.Dense{Units: 2}},
	}
	return s
}

// number is series with one number for each sequence, which has no axis.
func number() models.Spec {
	s := summed()
	s.Target = shape.F32()
	s.Layers[1] = models.Named{Name: "sum", Pos: at, Layer: models.Sum{Axes: []int{0}}}
	return s
}

// lengthSpecs are models of samples with different lengths.
func lengthSpecs() map[string]models.Spec {
	smoothed, focal, l1, huber := lines(), reviews(), series(), summed()
	smoothed.LossKeys = models.CrossEntropyKeys{Smoothing: 0.2}
	weighted := reviews()
	weighted.ClassWeights = []float64{0.25, 3}
	focal.Loss, l1.Loss, huber.Loss = "focal", "l1", "huber"
	// Of grouped and full attention, the second sees later positions, and padding but for its lengths.
	grouped, full := lines(), reviews()
	grouped.Layers = models.Llama(models.LlamaOptions{Vocab: 7, Context: 9, Layers: 2, Heads: 4, KVHeads: 2, Size: 4, Width: 6, Hidden: 8, Window: 4, Eps: 1e-5, Theta: 20}, at)
	full.Layers = models.Stack{full.Layers[0],
		models.Named{Name: "full", Pos: at, Layer: models.GroupedAttention{Heads: 2, KVHeads: 1, Size: 4, Full: true, Base: 20}},
		models.Named{Name: "mean", Pos: at, Layer: models.Mean{Axes: []int{0}}},
		models.Named{Name: "classes", Pos: at, Layer: models.Dense{Units: 3}}}
	return map[string]models.Spec{"grouped": grouped, "full": full, "smoothed": smoothed, "weighted": weighted, "focal": focal, "l1": l1, "huber": huber, "lines": lines(), "reviews": reviews(), "recurrent": recurring(), "both ends": fromBothEnds(), "largest": largest(), "series": series(), "summed": summed(), "number": number()}
}

// write writes number k of a position into an array: of an f32 one, NaN for a v below 0.
func write(a ref.Array, i int, v int32, k int) {
	if a.Meta.DType == shape.Int32 {
		a.I[i] = v
		return
	}
	x := float64(v) + float64(k)/8
	if v < 0 {
		x = math.NaN()
	}
	a.F[i] = x
}

// stepOf takes a step on sequences of a size, whose padding is the tokens of fill, and gives
// all variables afterwards, and the gradients of the mean loss.
func stepOf(t *testing.T, s models.Spec, positions int, texts [][]int32, targets func(i, j int) int32, fill func(i int) int32) (after state, mean map[string][]float64) {
	t.Helper()
	z := models.Size{Microbatch: len(texts), Microbatches: 1, Batch: len(texts), Ring: 1, Positions: positions}
	o := adamW()
	o.ClipNorm, o.GradNorm = 1e9, true
	g := train(t, s, o, z)
	in, lengths := ref.New(g.Find(models.InputName).Meta), ref.New(shape.I32(len(texts)))
	target := ref.New(g.Find(models.TargetName).Meta)
	for i := range in.Meta.Elems() {
		write(in, i, fill(i), 0)
	}
	for i := range target.Meta.Elems() {
		write(target, i, fill(i), 0)
	}
	terms := 0.0
	features, answers := in.Meta.Elems()/len(texts)/positions, target.Meta.Elems()/len(texts)
	if s.PerPosition() {
		answers /= positions
	}
	for i, text := range texts {
		lengths.I[i] = int32(len(text))
		for j, id := range text {
			for k := range features {
				write(in, (i*positions+j)*features+k, id, k)
			}
		}
		told := min(1, len(text))
		at := i
		if s.PerPosition() {
			told, at = len(text), i*positions
		}
		terms += float64(told * answers)
		for j := range told {
			for k := range answers {
				write(target, (at+j)*answers+k, targets(i, j), k)
			}
		}
	}
	st := fresh(g, 4)
	vals := st.step(t, g, state{models.InputName: in, models.LengthName: lengths, models.TargetName: target, models.BaseName: ref.New(shape.I32())})
	mean = map[string][]float64{}
	for name, v := range gradients(g) {
		for _, x := range vals[v].F {
			mean[name] = append(mean[name], x/terms)
		}
	}
	return st, mean
}

var texts = [][]int32{{1, 5, 0, 6, 2}, {3, 3}, {}, {4, 1, 2, 6}}

// Whatever the bytes of the padding are, no bit of loss, gradients and weights changes.
func TestPaddingChangesNothing(t *testing.T) {
	for name, s := range lengthSpecs() {
		t.Run(name, func(t *testing.T) {
			targets := func(i, j int) int32 { return int32(2*i+j) % 3 }
			want, grads := stepOf(t, s, 7, texts, targets, func(int) int32 { return 0 })
			for _, fill := range []int32{6, -1, 1 << 30} {
				got, g := stepOf(t, s, 7, texts, targets, func(i int) int32 { return fill - int32(i%2) })
				for _, name := range slices.Sorted(maps.Keys(want)) {
					for i, x := range want[name].F {
						if math.Float64bits(x) != math.Float64bits(got[name].F[i]) {
							t.Fatalf("padding of %d: %s[%d] is %v, with zeros %v", fill, name, i, got[name].F[i], x)
						}
					}
				}
				for name := range grads {
					if !slices.Equal(grads[name], g[name]) {
						t.Errorf("padding of %d changes the gradient of %s", fill, name)
					}
				}
			}
		})
	}
}

// A padded batch gives the loss, the gradients and the weights that its sequences give without
// padding.
func TestPaddedAgreesWithUnpadded(t *testing.T) {
	for name, s := range lengthSpecs() {
		t.Run(name, func(t *testing.T) {
			targets := func(i, j int) int32 { return int32(2*i+j) % 3 }
			padded, mean := stepOf(t, s, 9, texts, targets, func(int) int32 { return 5 })
			sums, terms, loss, weights := map[string][]float64{}, 0.0, 0.0, 0.0
			for i, text := range texts {
				if len(text) == 0 {
					continue
				}
				n := float64(s.Terms())
				if s.PerPosition() {
					n *= float64(len(text)) / 9
				}
				after, own := stepOf(t, s, len(text), [][]int32{text}, func(_, j int) int32 { return targets(i, j) }, func(int) int32 { return 0 })
				weight := n
				if s.ClassWeights != nil {
					weight = append(s.ClassWeights, 1)[targets(i, 0)]
				}
				loss, weights, terms = loss+after[models.LossRing].F[0]*weight, weights+weight, terms+n
				for name, g := range own {
					if sums[name] == nil {
						sums[name] = make([]float64, len(g))
					}
					for k, x := range g {
						sums[name][k] += x * n
					}
				}
			}
			agree(t, "the loss", padded[models.LossRing].F, 1, []float64{loss / weights}, 1e-12)
			for name, sum := range sums {
				agree(t, "the gradient of "+name, mean[name], terms, sum, 1e-9)
			}
		})
	}
}

// Targets of -1 are left out of the loss and of its divisor: a sequence of which none is left
// counts like an empty one.
func TestMaskedTargets(t *testing.T) {
	s := lines()
	s.Masked = true
	of := func(masked func(i, j int) bool) func(i, j int) int32 {
		return func(i, j int) int32 {
			if masked(i, j) {
				return -1
			}
			return int32(2*i+j) % 3
		}
	}
	got, grads := stepOf(t, s, 9, texts, of(func(i, _ int) bool { return i == 0 }), func(int) int32 { return 0 })
	s.Masked = false
	without := append([][]int32{{}}, texts[1:]...)
	want, others := stepOf(t, s, 9, without, of(func(int, int) bool { return false }), func(int) int32 { return 0 })
	agree(t, "the loss", got[models.LossRing].F, 1, want[models.LossRing].F, 0)
	for name := range others {
		agree(t, "the gradient of "+name, grads[name], 11.0/6, others[name], 1e-12) // stepOf divides by all terms
	}
	s.Masked = true
	half, _ := stepOf(t, s, 9, texts, of(func(_, j int) bool { return j%2 == 1 }), func(int) int32 { return 0 })
	if x := half[models.LossRing].F[0]; !(x > 0.5 && x < 4) {
		t.Errorf("the loss of every second target is %v, not a mean", x)
	}
}

// Layers and losses that would see padding are refused, with their line.
func TestLengthsRefused(t *testing.T) {
	with := func(l models.Layer) models.Spec {
		s := lines()
		s.Layers = slices.Insert(s.Layers, 3, models.Stack{models.Named{Name: "own", Pos: at, Layer: l}}...)
		return s
	}
	for name, c := range map[string]struct {
		spec models.Spec
		want string
	}{
		"flatten":   {with(models.Flatten{}), `configs/x.yaml:14: layer 3 (flatten "own"): it would mix the padding`},
		"positions": {with(models.Concat{Layers: models.Stack{models.Named{Name: "in", Layer: models.Dense{Units: 6}}}}), "axis 0 counts the positions"},
		"batchnorm": {with(models.BatchNorm{}), "its statistics would count the padding"},
		"two axes":  {with(models.Mean{Axes: []int{0, 1}}), "reduce the positions, axis 0, in a layer of their own"},
		"width":     {with(models.Mean{Axes: []int{1}}), `layer 3 (mean "own"): its output f32[9] has one number for each position, and the next layer would mix padding with the other positions: keep the reduced axis with size 1 (keep: true)`},
		"flatten after a body": {func() models.Spec {
			s := reviews()
			s.Layers = slices.Insert(s.Layers, 3, models.Stack{
				models.Named{Name: "all", Pos: at, Layer: models.Residual{Layers: models.Stack{
					models.Named{Name: "kept", Pos: at, Layer: models.Mean{Axes: []int{0}, Keep: true}}, models.Named{Name: "wide", Pos: at, Layer: models.Broadcast{Shape: []int{9, 6}}}}}},
				models.Named{Name: "flat", Pos: at, Layer: models.Flatten{}}}...)
			return s
		}(), `(flatten "flat"): it would mix the padding`},
		"no mean": {func() models.Spec {
			s := lines()
			s.Target = shape.I32()
			return s
		}(), "if each sequence has one target, add a mean over axes [0]"},
		"numbers": {func() models.Spec {
			s := lines()
			s.Input = shape.F32(9)
			return s
		}(), "must be sequences of tokens, i32[positions], or of numbers, f32[positions, features]"},
	} {
		_, err := models.Train(c.spec, adamW(), models.Size{Microbatch: 2, Microbatches: 1, Batch: 2, Ring: 1})
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
}
