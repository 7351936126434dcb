package models_test

import (
	"strings"
	"testing"

	"github.com/berth-ml/berth/engine/models"
	"github.com/berth-ml/berth/engine/shape"
)

func TestTermsAndAccuracy(t *testing.T) {
	for _, c := range []struct {
		target   shape.Meta
		loss     string
		terms    int
		classify bool
	}{
		{shape.I32(), "cross_entropy", 1, true},
		{shape.I32(16), "cross_entropy", 16, true},
		{shape.F32(3), "mse", 3, false},
		{shape.F32(1), "bce", 1, true},
	} {
		s := models.Spec{Target: c.target, Loss: c.loss}
		if s.Terms() != c.terms || s.Classifies() != c.classify {
			t.Errorf("%s of %v has %d terms and classifies: %v", c.loss, c.target, s.Terms(), s.Classifies())
		}
	}
}

// A model without room for the data's classes and tokens is refused when it is built.
func TestModelsHaveRoomForTheData(t *testing.T) {
	class := models.Spec{Input: shape.F32(4), Target: shape.I32(), Loss: "cross_entropy", Classes: 10, Layers: models.MLP(nil, "relu", 7, at)}
	text := models.Spec{Input: shape.I32(3), Target: shape.I32(3), Loss: "cross_entropy", Tokens: 9,
		Layers: models.GPT(models.GPTOptions{Vocab: 5, Context: 3, Layers: 1, Heads: 1, Width: 4}, at)}
	for want, s := range map[string]models.Spec{
		"the model tells 7 classes apart, but the data has 10: give its last layer 10 outputs": class,
		"its table has 5 rows, but the data has 9 tokens: set vocab to 9, or leave it out":     text,
	} {
		if _, err := models.Eval(s, models.Size{Microbatch: 2}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
		s.Classes, s.Tokens = 0, 0
		if _, err := models.Eval(s, models.Size{Microbatch: 2}); err != nil {
			t.Error(err)
		}
	}
}
