package models_test

import (
	"strings"
	"testing"

	"github.com/berth-ml/berth/engine/models"
	"github.com/berth-ml/berth/engine/shape"
)

// What the data holds must fit the model before anything runs.
func TestModelsHaveRoomForTheData(t *testing.T) {
	class := models.Spec{Input: shape.F32(4), Target: shape.I32(), Loss: "cross_entropy", Classes: 10, Layers: models.MLP(nil, "relu", 7, at)}
	text := models.Spec{Input: shape.I32(3), Target: shape.I32(3), Loss: "cross_entropy", Tokens: 9,
		Layers: models.GPT(models.GPTOptions{Vocab: 5, Context: 3, Layers: 1, Heads: 1, Width: 4}, at)}
	for want, s := range map[string]models.Spec{
		"the model tells 7 classes apart, the data has 10: give its last layer 10 outputs": class,
		"its table has 5 rows, the data 9 tokens: set vocab to 9 or leave it out":          text,
	} {
		if _, err := models.Eval(s, 2); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
		s.Classes, s.Tokens = 0, 0
		if _, err := models.Eval(s, 2); err != nil {
			t.Error(err)
		}
	}
}
