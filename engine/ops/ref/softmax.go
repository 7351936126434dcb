package ref

import (
	"math"
	"slices"

	"github.com/berth-ml/berth/engine/ops"
)

var softmaxes = map[string]kernel{
	"softmax":          of(softmax),
	"softmax_grad":     of(softmaxGrad),
	"log_softmax":      of(logSoftmax),
	"log_softmax_grad": of(logSoftmaxGrad),
}

// logSumExp is log sum exp(x). It subtracts the largest element before exp,
// so that no exp overflows.
func logSumExp(x []float64) float64 {
	largest, sum := slices.Max(x), 0.0
	for _, v := range x {
		sum += math.Exp(v - largest)
	}
	return largest + math.Log(sum)
}

func softmax(_ ops.Softmax, in, out []Array) {
	ys := rows(out[0])
	for r, x := range rows(in[0]) {
		lse := logSumExp(x)
		for i, v := range x {
			ys[r][i] = math.Exp(v - lse)
		}
	}
}

func softmaxGrad(_ ops.SoftmaxGrad, in, out []Array) {
	dys, dxs := rows(in[1]), rows(out[0])
	for r, y := range rows(in[0]) {
		dot := 0.0
		for i := range y {
			dot += y[i] * dys[r][i]
		}
		for i := range y {
			dxs[r][i] = y[i] * (dys[r][i] - dot)
		}
	}
}

func logSoftmax(_ ops.LogSoftmax, in, out []Array) {
	ys := rows(out[0])
	for r, x := range rows(in[0]) {
		lse := logSumExp(x)
		for i, v := range x {
			ys[r][i] = v - lse
		}
	}
}

func logSoftmaxGrad(_ ops.LogSoftmaxGrad, in, out []Array) {
	dys, dxs := rows(in[1]), rows(out[0])
	for r, y := range rows(in[0]) {
		sum := 0.0
		for _, d := range dys[r] {
			sum += d
		}
		for i := range y {
			dxs[r][i] = dys[r][i] - math.Exp(y[i])*sum
		}
	}
}
