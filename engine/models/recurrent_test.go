package models_test

import (
	"errors"
	"slices"
	"testing"

	"github.com/berth-ml/berth/engine/models"
	"github.com/berth-ml/berth/engine/shape"
)

// Building ends with the error of Stop at whichever op of a loop, or of its gradient, it is
// asked.
func TestRecurrentLayersStop(t *testing.T) {
	over := errors.New("over")
	for before := range 24 { // layers before the loop, so that another op of it is the first that stops
		s := models.Spec{Input: shape.F32(40, 2), Target: shape.F32(6), Loss: "mse", Layers: slices.Repeat(models.Stack{models.Relu{}}, before)}
		s.Layers = append(s.Layers, []models.Layer{models.LSTM{Units: 3, Last: true, Bidirectional: true}, models.GRU{Units: 3, Last: true, Bidirectional: true}}[before%2])
		for asked := range 4 {
			z := models.Size{Microbatch: 2, Microbatches: 1, Batch: 2, Ring: 1, Stop: func() error {
				if asked--; asked >= 0 {
					return nil
				}
				return over
			}}
			if _, err := models.Train(s, adamW(), z); !errors.Is(err, over) {
				t.Fatalf("behind %d layers: %v, want %v", before, err, over)
			}
		}
	}
}
