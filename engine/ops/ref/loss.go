package ref

import (
	"fmt"
	"math"

	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/engine/ops"
)

var losses = map[string]kernel{
	"cross_entropy":      crossEntropy,
	"cross_entropy_grad": crossEntropyGrad,
	"mse":                of(mse),
	"mse_grad":           of(mseGrad),
	"bce":                of(bce),
	"bce_grad":           of(bceGrad),
	"correct":            correct,
	"binary_correct":     of(binaryCorrect),
	"check_finite":       checkFinite,
}

// eachClass calls f with each row of scores and the class that is its target. padded:
// rows with target -1 are left out.
func eachClass(scores, targets Array, padded bool, f func(r int, x []float64, class int)) error {
	for r, x := range rows(scores) {
		t := targets.I[r]
		if padded && t == -1 {
			continue
		}
		if t < 0 || int(t) >= len(x) {
			return fmt.Errorf("target %d of row %d is outside the %d classes", t, r, len(x))
		}
		f(r, x, int(t))
	}
	return nil
}

func crossEntropy(op graph.Op, in, out []Array) error {
	return eachClass(in[0], in[1], op.(ops.CrossEntropy).Padded, func(r int, x []float64, class int) {
		lse := logSumExp(x)
		out[0].F[0] += lse - x[class]
		out[1].F[r] = lse
	})
}

func crossEntropyGrad(op graph.Op, in, out []Array) error {
	clear(out[0].F)
	dxs := rows(out[0])
	lse, dloss := in[2].F, in[3].F[0]
	return eachClass(in[0], in[1], op.(ops.CrossEntropyGrad).Padded, func(r int, x []float64, class int) {
		for i, v := range x {
			dxs[r][i] = math.Exp(v-lse[r]) * dloss
		}
		dxs[r][class] -= dloss
	})
}

func mse(_ ops.MSE, in, out []Array) {
	for i, p := range in[0].F {
		d := p - in[1].F[i]
		out[0].F[0] += d * d
	}
}

func mseGrad(_ ops.MSEGrad, in, out []Array) {
	for i, p := range in[0].F {
		out[0].F[i] = 2 * (p - in[1].F[i]) * in[2].F[0]
	}
}

func bce(_ ops.BCE, in, out []Array) {
	for i, x := range in[0].F {
		out[0].F[0] += max(x, 0) - x*in[1].F[i] + math.Log1p(math.Exp(-math.Abs(x)))
	}
}

func bceGrad(_ ops.BCEGrad, in, out []Array) {
	for i, x := range in[0].F {
		out[0].F[i] = (sigmoid(x) - in[1].F[i]) * in[2].F[0]
	}
}

func correct(op graph.Op, in, out []Array) error {
	return eachClass(in[0], in[1], op.(ops.Correct).Padded, func(_ int, x []float64, class int) {
		if firstLargest(x) == class {
			out[0].F[0]++
		}
	})
}

func binaryCorrect(_ ops.BinaryCorrect, in, out []Array) {
	for i, x := range in[0].F {
		if (x > 0) == (in[1].F[i] > 0.5) {
			out[0].F[0]++
		}
	}
}

func checkFinite(_ graph.Op, in, out []Array) error {
	x := in[0].F[0]
	if math.IsNaN(x) || math.IsInf(x, 0) {
		return fmt.Errorf("value is %v, not finite", x)
	}
	out[0].F[0] = x
	return nil
}
