package ref

import (
	"math"

	"github.com/berth-ml/berth/engine/ops"
)

var norms = map[string]kernel{
	"layer_norm":      of(layerNorm),
	"layer_norm_grad": of(layerNormGrad),
	"rms_norm":        of(rmsNorm),
	"rms_norm_grad":   of(rmsNormGrad),
	"batch_norm":      of(batchNorm),
	"batch_norm_grad": of(batchNormGrad),
	"batch_norm_eval": of(batchNormEval),
}

// moments are the mean and the biased variance of the members.
func moments(x []float64, members []int) (mean, variance float64) {
	for _, i := range members {
		mean += x[i]
	}
	mean /= float64(len(members))
	for _, i := range members {
		variance += (x[i] - mean) * (x[i] - mean)
	}
	return mean, variance / float64(len(members))
}

// rowGroups lists the elements of each row of the last axis.
func rowGroups(a Array) [][]int {
	groups := make([][]int, 0)
	for i := range a.F {
		if i%a.Meta.Shape.Dim(-1) == 0 {
			groups = append(groups, nil)
		}
		groups[len(groups)-1] = append(groups[len(groups)-1], i)
	}
	return groups
}

// channelGroups lists the elements of each channel, dimension 1.
func channelGroups(a Array) [][]int {
	groups := make([][]int, a.Meta.Shape[1])
	each(a.Meta.Shape, func(i int, ix []int) { groups[ix[1]] = append(groups[ix[1]], i) })
	return groups
}

func layerNorm(o ops.LayerNorm, in, out []Array) {
	x, y := in[0].F, out[0].F
	for r, members := range rowGroups(in[0]) {
		mean, variance := moments(x, members)
		rstd := 1 / math.Sqrt(variance+o.Eps)
		for k, i := range members {
			y[i] = (x[i]-mean)*rstd*in[1].F[k] + in[2].F[k]
		}
		out[1].F[r], out[2].F[r] = mean, rstd
	}
}

func layerNormGrad(_ ops.LayerNormGrad, in, out []Array) {
	x, gamma, mean, rstd, dy := in[0].F, in[1].F, in[2].F, in[3].F, in[4].F
	for r, members := range rowGroups(in[0]) {
		for k, i := range members {
			out[1].F[k] += dy[i] * (x[i] - mean[r]) * rstd[r]
			out[2].F[k] += dy[i]
		}
		weight := func(k int) float64 { return gamma[k] }
		normalisedGrad(x, dy, out[0].F, members, mean[r], rstd[r], weight)
	}
}

func rmsNorm(o ops.RMSNorm, in, out []Array) {
	x, y := in[0].F, out[0].F
	for r, members := range rowGroups(in[0]) {
		square := 0.0
		for _, i := range members {
			square += x[i] * x[i] / float64(len(members))
		}
		rstd := 1 / math.Sqrt(square+o.Eps)
		for k, i := range members {
			y[i] = x[i] * rstd * in[1].F[k]
		}
		out[1].F[r] = rstd
	}
}

// rmsNormGrad is dx = rstd (g - h mean(g h)), with h = x rstd and g = dy gamma.
func rmsNormGrad(_ ops.RMSNormGrad, in, out []Array) {
	x, gamma, rstd, dy := in[0].F, in[1].F, in[2].F, in[3].F
	for r, members := range rowGroups(in[0]) {
		gh := 0.0
		for k, i := range members {
			out[1].F[k] += dy[i] * x[i] * rstd[r]
			gh += dy[i] * gamma[k] * x[i] * rstd[r] / float64(len(members))
		}
		for k, i := range members {
			out[0].F[i] = rstd[r] * (dy[i]*gamma[k] - x[i]*rstd[r]*gh)
		}
	}
}

func batchNorm(o ops.BatchNorm, in, out []Array) {
	x, y := in[0].F, out[0].F
	for c, members := range channelGroups(in[0]) {
		mean, variance := moments(x, members)
		rstd := 1 / math.Sqrt(variance+o.Eps)
		for _, i := range members {
			y[i] = (x[i]-mean)*rstd*in[1].F[c] + in[2].F[c]
		}
		out[1].F[c], out[2].F[c], out[3].F[c] = mean, variance, rstd
	}
}

func batchNormGrad(_ ops.BatchNormGrad, in, out []Array) {
	x, gamma, mean, rstd, dy := in[0].F, in[1].F, in[2].F, in[3].F, in[4].F
	for c, members := range channelGroups(in[0]) {
		for _, i := range members {
			out[1].F[c] += dy[i] * (x[i] - mean[c]) * rstd[c]
			out[2].F[c] += dy[i]
		}
		weight := func(int) float64 { return gamma[c] }
		normalisedGrad(x, dy, out[0].F, members, mean[c], rstd[c], weight)
	}
}

// normalisedGrad is the gradient through h = (x-mean) rstd of one group. With
// g = dy*weight, dx = rstd (g - mean(g) - h mean(g h)).
func normalisedGrad(x, dy, dx []float64, members []int, mean, rstd float64, weight func(k int) float64) {
	n := float64(len(members))
	var g, gh float64
	for k, i := range members {
		g += dy[i] * weight(k) / n
		gh += dy[i] * weight(k) * (x[i] - mean) * rstd / n
	}
	for k, i := range members {
		dx[i] = rstd * (dy[i]*weight(k) - g - (x[i]-mean)*rstd*gh)
	}
}

func batchNormEval(o ops.BatchNormEval, in, out []Array) {
	x, gamma, beta, mean, variance := in[0].F, in[1].F, in[2].F, in[3].F, in[4].F
	for c, members := range channelGroups(in[0]) {
		for _, i := range members {
			out[0].F[i] = (x[i]-mean[c])/math.Sqrt(variance[c]+o.Eps)*gamma[c] + beta[c]
		}
	}
}
