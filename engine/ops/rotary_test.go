package ops_test

import (
	"math"
	"math/big"
	"testing"

	"github.com/berth-ml/berth/engine/ops"
)

// TestAnglesOfFarPositions: an angle is exact however far a position is, where the product
// of floats has lost what is left of whole turns.
func TestAnglesOfFarPositions(t *testing.T) {
	const digits = 200 // bits
	turn, _, err := big.ParseFloat("6.283185307179586476925286766559005768394338798750211641949889", 10, digits, big.ToNearestEven)
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range []ops.Rotary{{Size: 8, Heads: 1, Base: 1e4}, {Size: 8, Heads: 1, Base: 5e5, Inverse: true}} {
		frequencies := o.Frequencies()
		for i, unit := range o.Turns() {
			for _, position := range []int32{0, 1, 7, 4095, 1 << 20, 1<<31 - 1} {
				x := new(big.Float).SetPrec(digits).SetFloat64(frequencies[i])
				x.Mul(x, new(big.Float).SetInt64(int64(position)))
				whole, _ := new(big.Float).Quo(x, turn).Int(nil)
				x.Sub(x, new(big.Float).SetPrec(digits).Mul(turn, new(big.Float).SetInt(whole)))
				want, _ := x.Float64()
				if o.Inverse {
					want = -want
				}
				got := ops.Angle(unit, position)
				if math.Abs(math.Sin(got)-math.Sin(want)) > 1e-6 || math.Abs(math.Cos(got)-math.Cos(want)) > 1e-6 || position <= 4095 && math.Abs(math.Sin(got)-math.Sin(want)) > 1e-12 {
					t.Errorf("%v, frequency %d, position %d: angle %v, expected %v", o, i, position, got, want)
				}
			}
		}
	}
}

// TestFrequenciesAreStretched by what each scaling says, for a head of 8 and base 10000: its
// frequencies are 1, 0.1, 0.01 and 0.001.
func TestFrequenciesAreStretched(t *testing.T) {
	for _, c := range []struct {
		scaling ops.RotaryScaling
		want    []float64
	}{
		{ops.RotaryScaling{}, []float64{1, 0.1, 0.01, 0.001}},
		{ops.RotaryScaling{Kind: "linear", Factor: 4}, []float64{0.25, 0.025, 0.0025, 0.00025}},
		// The base is 10000 * 8^(8/6) = 160000: its roots are 20, 400 and 8000.
		{ops.RotaryScaling{Kind: "ntk", Factor: 8}, []float64{1, 1.0 / 20, 1.0 / 400, 1.0 / 8000}},
		// In 628.3 positions there are 100, 10, 1 and 0.1 turns: 10 is half-way between 4 and 16.
		{ops.RotaryScaling{Kind: "llama3", Factor: 2, Low: 4, High: 16, Context: 628}, []float64{1, 0.1 * 0.75, 0.005, 0.0005}},
	} {
		for i, got := range (ops.Rotary{Size: 8, Heads: 1, Base: 1e4, Scaling: c.scaling}).Frequencies() {
			if math.Abs(got-c.want[i]) > 1e-3*c.want[i] {
				t.Errorf("%+v: frequency %d is %v, expected %v", c.scaling, i, got, c.want[i])
			}
		}
	}
}
