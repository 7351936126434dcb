package models_test

import (
	"testing"

	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/engine/models"
	"github.com/berth-ml/berth/engine/shape"
)

func TestDenseMismatchReadsAsPromised(t *testing.T) {
	s := models.Spec{Input: shape.F32(1, 8, 8), Target: shape.I32(), Loss: "cross_entropy", Layers: models.Stack{
		models.Named{Name: "flat", Layer: models.Flatten{}}, models.Named{Name: "fc1", Layer: models.Dense{Units: 128}}, models.Named{Name: "act", Layer: models.Relu{}},
		models.Named{Name: "fc2", Pos: graph.Pos{File: "configs/x.yaml", Line: 14}, Layer: models.Dense{Units: 10, In: 64}},
	}}
	const want = `configs/x.yaml:14: layer 3 (dense "fc2"): input has 128 features, weight expects 64`
	if _, err := models.Predict(s, models.Size{Microbatch: 4}); err == nil || err.Error() != want {
		t.Errorf("got %v, expected %s", err, want)
	}
}
