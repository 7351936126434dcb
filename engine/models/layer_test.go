package models_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/engine/models"
	"github.com/berth-ml/berth/engine/ops"
	"github.com/berth-ml/berth/engine/shape"
)

// TwoWays is a layer that no config knows.
type TwoWays struct{ Units int }

func (l TwoWays) Build(b *models.Builder, x *graph.Value) *graph.Value {
	left := b.Stack(x, models.Dense{Units: l.Units}, models.Relu{})
	return ops.Mul(b.Builder, left, b.Stack(x, models.Named{Name: "right", Layer: models.Dense{Units: l.Units}}))
}

// Layers without a name are counted: in a model by their place, in another layer by type.
func TestNamesOfLayers(t *testing.T) {
	s := models.Spec{Input: shape.F32(3), Target: shape.F32(2), Loss: "mse", Layers: models.Stack{
		TwoWays{4}, models.Stack{&models.Dense{Units: 3}, models.Relu{}},
		models.Named{Name: "end", Layer: models.Func(func(b *models.Builder, x *graph.Value) *graph.Value {
			return b.Stack(x, models.Dense{Units: 5}, models.Dense{Units: 2, NoBias: true})
		})},
	}}
	g := train(t, s, adamW(), models.Size{Microbatch: 2, Microbatches: 1, Batch: 2})
	var names []string
	for _, v := range g.Vars {
		if v.Role == graph.Parameter {
			names = append(names, v.Name)
		}
	}
	want := strings.Fields("two_ways0.dense_1.weight two_ways0.dense_1.bias two_ways0.right.weight two_ways0.right.bias dense5.weight dense5.bias end.dense_1.weight end.dense_1.bias end.dense_2.weight")
	if !slices.Equal(names, want) {
		t.Errorf("the parameters are\n%s, want\n%s", strings.Join(names, " "), strings.Join(want, " "))
	}
	if l := g.Find("dense5.weight").Layer; l.Block != "stack4" {
		t.Errorf("a layer in a stack is of block %q", l.Block)
	}
}

func TestMistakesInGoLayers(t *testing.T) {
	for want, l := range map[string]models.Layer{
		`layer 0 (dense "it"): its keys are a int: give a models.Dense`:                   models.ByName("dense", 3, nil),
		`layer 0 (no_output "it"): its function gives <nil> for 2 samples`:                noOutput(nil),
		`layer 1 (dense "it.dense_1"): units is -1: give it a whole number of at least 1`: &TwoWays{Units: -1},
		`layer 0 (func "it"): its function panicked: oops`:                                models.Func(func(*models.Builder, *graph.Value) *graph.Value { panic("oops") }),
		`layer 0 (nil "it"): it is nil: give it a layer`:                                  nil,
		`layer 0 (func "it"): the function is nil: give it one`:                           models.Func(nil),
	} {
		_, err := models.Predict(models.Spec{Input: shape.F32(2), Target: shape.F32(2), Loss: "mse", Layers: models.Stack{models.Named{Name: "it", Layer: l}}}, models.Size{Microbatch: 2})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v\nexpected %s", err, want)
		}
	}
}

// noOutput is a layer without a result.
type noOutput []int

func (noOutput) Build(*models.Builder, *graph.Value) *graph.Value { return nil }

func TestTwoTypesOfOneStruct(t *testing.T) {
	defer func() {
		if x, _ := recover().(string); !strings.Contains(x, "register layer again: its keys are those of layer relu") {
			t.Errorf("got %q", x)
		}
	}()
	models.RegisterLayer(models.LayerType[models.Relu]{Name: "again", Version: 1})
}

// A table of positions without a size has that of the longest sample, in graphs for fewer
// positions, too.
func TestPositionsAsTheDataNeeds(t *testing.T) {
	s := models.Spec{
		Input: shape.I32(9), Target: shape.I32(9), Loss: "cross_entropy", Lengths: true, Tokens: 7,
		Layers: models.Stack{models.Embedding{Width: 4}, models.PositionalEmbedding{}, models.Named{Name: "head", Layer: models.Dense{Units: 7}}},
	}
	if n := s.Positions(); n != 9 {
		t.Errorf("the model has %d positions", n)
	}
	for _, positions := range []int{4, 9} {
		g := train(t, s, adamW(), models.Size{Microbatch: 2, Microbatches: 1, Batch: 2, Positions: positions})
		if w := g.Find("positional_embedding1.weight"); !w.Meta.Equal(shape.F32(9, 4)) {
			t.Errorf("of %d positions: %v", positions, w)
		}
		if w := g.Find("embedding0.weight"); !w.Meta.Equal(shape.F32(7, 4)) {
			t.Errorf("of %d tokens: %v", s.Tokens, w)
		}
	}
}
