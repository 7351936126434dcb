package models_test

import (
	"testing"

	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/engine/models"
	"github.com/berth-ml/berth/engine/shape"
)

func TestMistakesInAModel(t *testing.T) {
	dense := func(name string) models.Layer {
		return models.Named{Name: name, Pos: at, Layer: models.Dense{Units: 2}}
	}
	tied := models.Named{Name: "head", Pos: at, Layer: models.Dense{Units: 3, Tied: "fc.weight"}}
	for _, c := range []struct {
		layers models.Stack
		in     shape.Meta
		target shape.Meta
		loss   string
		want   string
	}{
		{nil, shape.F32(2), shape.F32(2), "mse", "train: the model has no layers: list at least one"},
		{models.Stack{dense("fc"), dense("fc")}, shape.F32(2), shape.F32(2), "mse", `configs/x.yaml:14: layer 1 (dense "fc"): another layer has that name: give each its own`},
		{models.Stack{dense("fc"), tied}, shape.F32(2), shape.F32(2), "mse", `configs/x.yaml:14: layer 1 (dense "head"): tied to fc.weight f32[2,2], which gives 2 outputs: set units to that number, not 3`},
		{models.Stack{dense("fc")}, shape.F32(2), shape.F32(2), "hinge", `configs/x.yaml:14: layer 1 (loss "hinge"): no loss "hinge": there are bce, by_each_size, by_size, cross_entropy, focal, huber, l1, mse`},
		{models.Stack{dense("fc")}, shape.F32(2), shape.F32(2), "cross_entropy", `configs/x.yaml:14: layer 1 (loss "cross_entropy"): the targets are f32[2], and loss cross_entropy takes classes (i32): choose the loss that fits`},
		{models.Stack{dense("fc")}, shape.F32(2), shape.I32(), "bce", `configs/x.yaml:14: layer 1 (loss "bce"): the targets are i32[], and loss bce takes numbers (f32): choose the loss that fits`},
		{models.Stack{dense("fc")}, shape.F32(4, 2), shape.I32(), "cross_entropy", `configs/x.yaml:14: layer 1 (loss "cross_entropy"): the model's output for a sample is f32[4,2], but its target is i32[]: the last layers must give f32 of that shape and, last, an axis of classes`},
		{models.Stack{dense("fc")}, shape.F32(2), shape.F32(3), "mse", `configs/x.yaml:14: layer 1 (loss "mse"): the model's output for a sample is f32[2], but its target is f32[3]: the last layers must give f32 of that shape`},
		{models.Stack{models.Named{Name: "flat", Pos: at, Layer: models.Flatten{}}}, shape.F32(2), shape.F32(2), "mse", "train: optimizer: the model has no parameters to train: give it a layer that has, such as dense"},
	} {
		_, err := models.Train(models.Spec{Input: c.in, Target: c.target, Loss: c.loss, Layers: c.layers}, adamW(), models.Size{Microbatch: 3, Microbatches: 1, Batch: 3, Ring: 1})
		if err == nil || err.Error() != c.want {
			t.Errorf("got      %v\nexpected %s", err, c.want)
		}
	}
}

// TestInnerLayersAreCountedAndBelongToTheirBlock: a mistake inside a residual
// block names the inner layer; the loss belongs to the last top-level block.
func TestInnerLayersAreCountedAndBelongToTheirBlock(t *testing.T) {
	inner := models.Named{Name: "inner", Pos: graph.Pos{File: "configs/x.yaml", Line: 9}, Layer: models.Dense{Units: 4, In: 5}}
	body := models.Stack{models.Relu{}, inner}
	s := models.Spec{Input: shape.F32(4), Target: shape.F32(4), Loss: "mse", Layers: models.Stack{
		models.Named{Name: "fc", Layer: models.Dense{Units: 4}}, models.Named{Name: "res", Pos: at, Layer: models.Residual{Layers: body}},
	}}
	const want = `configs/x.yaml:9: layer 3 (dense "inner"): input has 4 features, weight expects 5`
	if _, err := models.Predict(s, models.Size{Microbatch: 1}); err == nil || err.Error() != want {
		t.Errorf("got %v, expected %s", err, want)
	}
	inner.Layer = models.Dense{Units: 4}
	body[1] = inner
	g := train(t, s, adamW(), models.Size{Microbatch: 1, Microbatches: 1, Batch: 1})
	if l := find(t, g, "mse").Layer; l.Block != "res" || l.Pos != at || l.Index != 4 {
		t.Errorf("the loss is %v of block %q at %v, expected layer 4 of block res at %v", l, l.Block, l.Pos, at)
	}
	if l := g.Find("inner.weight").Layer; l.Block != "res" {
		t.Errorf("the inner layer is of block %q, expected res", l.Block)
	}
}
