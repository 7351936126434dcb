// Package dataset adds a data set to a trainer: points of two spirals, computed
// when they are needed. With it, `data: {source: spirals}` works in YAML as any
// built-in source does:
//
//	go run ./examples/trainer train examples/dataset/spirals.yaml
//	go run ./examples/trainer train examples/dataset/spirals.yaml --set data.noise=0.3
//	go run ./examples/trainer configs reference
package dataset

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"

	"gorgonia.org/tensor"

	"github.com/berth-ml/berth/datasets/custom"
	"github.com/berth-ml/berth/engine/shape"
)

// Keys are the keys beside `source: spirals`. Their tags say how YAML names them, and
// which values are refused.
type Keys struct {
	Points int     `yaml:"points" min:"2" doc:"samples of both spirals together"`
	Turns  float64 `yaml:"turns" min:"0.1" max:"5" doc:"of each spiral"`
	Noise  float64 `yaml:"noise" min:"0" doc:"largest distance by which a point is moved, anew in each epoch"`
}

// Check refuses values that are wrong together. It is optional.
func (k Keys) Check() error {
	if k.Noise > 1/k.Turns {
		return errors.New("noise is more than the distance of the spirals; lower noise or turns")
	}
	return nil
}

func init() {
	custom.Register(custom.SourceType[Keys]{
		Name:     "spirals",
		Version:  1, // raise it whenever the samples change: runs on others are then not resumed by mistake
		Doc:      "Points in the plane, on one of two spirals.",
		Defaults: Keys{Points: 1000, Turns: 1.5, Noise: 0.02},
		Open:     Open,
	})
}

// Open makes the data set for a run.
func Open(_ context.Context, k Keys) (*custom.Set, error) {
	return &custom.Set{
		Len:    k.Points,
		Input:  shape.F32(2), // a sample is two numbers
		Target: shape.I32(),  // and its target a class
		Labels: []string{"left", "right"}, Classes: 2,
		// Fill writes one sample into tensors over the memory that the device copies
		// from. It is called from several goroutines at once, and keeps nothing.
		Fill: func(s custom.Sample, input, target *tensor.Dense) error {
			class := s.Index % 2
			along := float64(s.Index) / float64(k.Points)
			angle := 2*math.Pi*k.Turns*along + math.Pi*float64(class)
			x, y := along*math.Cos(angle), along*math.Sin(angle)
			if s.Epoch >= 0 { // training: the seed is another one in each epoch, and the same in a resumed run
				r := rand.New(rand.NewPCG(s.Seed, 0))
				x, y = x+k.Noise*(2*r.Float64()-1), y+k.Noise*(2*r.Float64()-1)
			}
			point := input.Float32s()
			point[0], point[1] = float32(x), float32(y)
			target.Int32s()[0] = int32(class)
			return nil
		},
	}, nil
}
