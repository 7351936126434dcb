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
	dense, softmax := models.Layer{Type: "dense", Units: 4}, models.Layer{Type: "softmax"}
	moved := models.Layer{Type: "transpose", Perm: []int{0}}
	for i, c := range []struct {
		loss   string
		target shape.Meta
		layers []models.Layer
		want   string // "" if the model is built
	}{
		{"cross_entropy", shape.I32(), []models.Layer{dense, softmax}, "the model ends in softmax: the loss applies softmax itself"},
		{"cross_entropy", shape.I32(), []models.Layer{dense, softmax, moved}, "the model ends in softmax"},
		{"cross_entropy", shape.I32(), []models.Layer{dense, {Type: "residual", Body: []models.Layer{softmax}}}, ""},
		{"cross_entropy", shape.I32(), []models.Layer{softmax, dense}, ""},
		{"cross_entropy", shape.I32(), []models.Layer{dense, {Type: "log_softmax"}}, ""}, // changes nothing
		{"cross_entropy", shape.I32(), []models.Layer{dense, {Type: "sigmoid"}}, ""},
		{"bce", shape.F32(4), []models.Layer{dense, {Type: "sigmoid"}}, "the model ends in sigmoid: the loss applies sigmoid itself"},
		{"bce", shape.F32(4), []models.Layer{dense, softmax}, "the model ends in softmax: the loss applies sigmoid itself"},
		{"mse", shape.F32(4), []models.Layer{dense, softmax}, ""},
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
