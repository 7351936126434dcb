package ref

import (
	"math"

	"github.com/berth-ml/berth/engine/ops"
)

var updates = map[string]kernel{
	"sgd":           of(sgd),
	"adam":          of(adam),
	"lion":          of(lion),
	"clip_factor":   of(clipFactor),
	"grad_norm":     of(gradNorm),
	"learning_rate": of(learningRate),
	"increment":     of(increment),
	"ring_write":    of(ringWrite),
}

// factor is the clip factor, the last input of an op that clips; otherwise 1.
func factor(clip bool, in []Array) float64 {
	if !clip {
		return 1
	}
	return in[len(in)-1].F[0]
}

func sgd(o ops.SGD, in, out []Array) {
	lr, clip := in[2].F[0], factor(o.Clip, in)
	for i, w := range in[0].F {
		d := in[1].F[i]*o.Scale*clip + o.WeightDecay*w
		if o.Momentum > 0 {
			v := o.Momentum*in[3].F[i] + d
			out[1].F[i] = v
			if o.Nesterov {
				d += o.Momentum * v
			} else {
				d = v
			}
		}
		out[0].F[i] = w - lr*d
	}
}

func adam(o ops.Adam, in, out []Array) {
	t, lr, clip := float64(in[4].I[0])+1, in[5].F[0], factor(o.Clip, in)
	bias1, bias2 := 1-math.Pow(o.Beta1, t), 1-math.Pow(o.Beta2, t)
	for i, w := range in[0].F {
		d := in[1].F[i] * o.Scale * clip
		if o.Decoupled {
			w -= lr * o.WeightDecay * w
		} else {
			d += o.WeightDecay * w
		}
		m := o.Beta1*in[2].F[i] + (1-o.Beta1)*d
		v := o.Beta2*in[3].F[i] + (1-o.Beta2)*d*d
		out[0].F[i] = w - lr/bias1*m/(math.Sqrt(v)/math.Sqrt(bias2)+o.Eps)
		out[1].F[i], out[2].F[i] = m, v
	}
}

func lion(o ops.Lion, in, out []Array) {
	lr, clip := in[3].F[0], factor(o.Clip, in)
	for i, w := range in[0].F {
		d, m := in[1].F[i]*o.Scale*clip, in[2].F[i]
		out[0].F[i] = w - lr*(sign(o.Beta1*m+(1-o.Beta1)*d)+o.WeightDecay*w)
		out[1].F[i] = o.Beta2*m + (1-o.Beta2)*d
	}
}

// sign is -1, 0 or 1; NaN of NaN.
func sign(x float64) float64 {
	switch {
	case x > 0:
		return 1
	case x < 0:
		return -1
	}
	return x
}

func clipFactor(o ops.ClipFactor, in, out []Array) {
	out[0].F[0] = min(1, o.MaxNorm/(normOf(o.Scale, in)+1e-6))
}

func gradNorm(o ops.GradNorm, in, out []Array) { out[0].F[0] = normOf(o.Scale, in) }

// normOf is the norm from sums of squares.
func normOf(scale float64, in []Array) float64 {
	sum := 0.0
	for _, a := range in {
		sum += a.F[0]
	}
	return scale * math.Sqrt(sum)
}

func learningRate(o ops.LearningRate, in, out []Array) {
	out[0].F[0] = o.At(int(in[0].I[0]))
}

func increment(_ ops.Increment, in, out []Array) { out[0].I[0] = in[0].I[0] + 1 }

func ringWrite(o ops.RingWrite, in, out []Array) {
	copy(out[0].F, in[0].F)
	n := len(in[2].F)
	at := int(in[1].I[0]) % (len(out[0].F) / n) * n
	for i, x := range in[2].F {
		out[0].F[at+i] = x * o.Scale
	}
}
