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

// class is the target t of a row, if it is one of the classes.
func class(t int32, row, classes int) (int, error) {
	if t < 0 || int(t) >= classes {
		return 0, fmt.Errorf("target %d of row %d is outside the %d classes", t, row, classes)
	}
	return int(t), nil
}

func crossEntropy(_ graph.Op, in, out []Array) error {
	for r, x := range rows(in[0]) {
		t, err := class(in[1].I[r], r, len(x))
		if err != nil {
			return err
		}
		lse := logSumExp(x)
		out[0].F[0] += lse - x[t]
		out[1].F[r] = lse
	}
	return nil
}

func crossEntropyGrad(_ graph.Op, in, out []Array) error {
	dxs := rows(out[0])
	lse, dloss := in[2].F, in[3].F[0]
	for r, x := range rows(in[0]) {
		t, err := class(in[1].I[r], r, len(x))
		if err != nil {
			return err
		}
		for i, v := range x {
			dxs[r][i] = math.Exp(v-lse[r]) * dloss
		}
		dxs[r][t] -= dloss
	}
	return nil
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

func correct(_ graph.Op, in, out []Array) error {
	for r, x := range rows(in[0]) {
		t, err := class(in[1].I[r], r, len(x))
		if err != nil {
			return err
		}
		if firstLargest(x) == t {
			out[0].F[0]++
		}
	}
	return nil
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
