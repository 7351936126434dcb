package models_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/berth-ml/berth/engine/models"
	"github.com/berth-ml/berth/engine/ops"
	"github.com/berth-ml/berth/engine/optim"
	"github.com/berth-ml/berth/engine/shape"
)

// A model that ends in a function of its loss is refused where it meets the
// loss: it would train, badly, on the function applied twice.
func TestLossAppliesItself(t *testing.T) {
	sgd := optim.Spec{Name: "sgd", Schedule: ops.LearningRate{Schedule: "constant", Base: 0.1}}
	dense, softmax := models.Dense{Units: 4}, models.Softmax{}
	moved := models.Transpose{Perm: []int{0}}
	for i, c := range []struct {
		loss   string
		target shape.Meta
		layers []models.Layer
		want   string // "" if the model is built
	}{
		{"cross_entropy", shape.I32(), models.Stack{dense, softmax}, "the model ends in softmax, but the loss applies softmax itself"},
		{"cross_entropy", shape.I32(), models.Stack{dense, softmax, moved}, "the model ends in softmax"},
		{"cross_entropy", shape.I32(), models.Stack{dense, models.Residual{Layers: models.Stack{softmax}}}, ""},
		{"cross_entropy", shape.I32(), models.Stack{softmax, dense}, ""},
		{"cross_entropy", shape.I32(), models.Stack{dense, models.LogSoftmax{}}, ""}, // changes nothing
		{"cross_entropy", shape.I32(), models.Stack{dense, models.Sigmoid{}}, ""},
		{"bce", shape.F32(4), models.Stack{dense, models.Sigmoid{}}, "the model ends in sigmoid, but the loss applies sigmoid itself"},
		{"bce", shape.F32(4), models.Stack{dense, softmax}, "the model ends in softmax, but the loss applies sigmoid itself"},
		{"mse", shape.F32(4), models.Stack{dense, softmax}, ""},
	} {
		s := models.Spec{Input: shape.F32(3), Target: c.target, Loss: c.loss, Layers: c.layers}
		_, train := models.Train(s, sgd, models.Size{Microbatch: 2, Microbatches: 1, Batch: 2, Ring: 1})
		_, eval := models.Eval(s, models.Size{Microbatch: 2})
		for _, err := range []error{train, eval} {
			if c.want == "" && err != nil || c.want != "" && (!errors.Is(err, models.ErrModel) || !strings.Contains(err.Error(), c.want)) {
				t.Errorf("%s, case %d: got %v, want %q", c.loss, i, err, c.want)
			}
		}
		if _, err := models.Predict(s, models.Size{Microbatch: 2}); err != nil {
			t.Errorf("predict: %v", err)
		}
	}
}
