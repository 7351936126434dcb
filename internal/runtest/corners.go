package runtest

import (
	"testing"

	"gorgonia.org/tensor"

	"github.com/berth-ml/berth"
	"github.com/berth-ml/berth/configs"
	"github.com/berth-ml/berth/datasets/custom"
	"github.com/berth-ml/berth/engine/shape"
)

// Corners are points in the plane, with the quadrant as their class. Training samples
// are moved a little in each epoch.
func Corners() *custom.Set {
	return &custom.Set{
		Name: "corners", Version: 1, Len: 200,
		Input: shape.F32(2), Target: shape.I32(), Classes: 4, Labels: []string{"a", "b", "c", "d"},
		Fill: func(s custom.Sample, input, target *tensor.Dense) error {
			class := s.Index % 4
			at := input.Float32s()
			at[0], at[1] = float32(1-class%2*2), float32(1-class/2*2)
			if s.Epoch >= 0 {
				at[0] += float32(s.Seed%100) / 1000
			}
			target.Int32s()[0] = int32(class)
			return nil
		},
	}
}

const CornersConfig = `
data: given
model: {preset: mlp, hidden: [8]}
train: {epochs: 3, batch: 16}
optimizer: {name: adam, lr: 0.02}
`

func OpenCorners(t *testing.T, set *custom.Set, text string) (*berth.Run, error) {
	t.Helper()
	c, err := configs.Parse("corners.yaml", []byte(text), configs.Overlay{})
	if err != nil {
		t.Fatal(err)
	}
	r, err := berth.Open(t.Context(), c, berth.OpenOptions{Data: set})
	if err == nil {
		t.Cleanup(func() {
			if err := r.Close(); err != nil {
				t.Error(err)
			}
		})
	}
	return r, err
}
