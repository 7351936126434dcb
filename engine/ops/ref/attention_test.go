package ref_test

import (
	"math"
	"testing"

	"github.com/berth-ml/berth/engine/ops"
	"github.com/berth-ml/berth/engine/ops/ref"
	"github.com/berth-ml/berth/engine/shape"
)

// With queries and keys of zero each query weighs all it sees the same, and
// with one-hot values the output is the probabilities after dropout.
func TestAttentionDropout(t *testing.T) {
	const batch, time, heads = 2, 3, 2
	const width, step, base = heads * time, 5, 7
	o := ops.Attention{Heads: heads, P: 0.5, Seed: 1, ID: 2}
	qkv := ref.New(shape.F32(batch, time, 3*width))
	for i := range batch * time {
		for h := range heads {
			qkv.F[i*3*width+2*width+h*time+i%time] = 1
		}
	}
	got := compute(t, o, qkv, count(step), count(base))
	for b := range batch {
		for q := range time {
			for h := range heads {
				for k := range time {
					want := 0.0
					i := (base+b)*heads*time*time + (h*time+q)*time + k
					if k <= q && ops.Kept(o.P, o.Key().At(uint64(i/4), step)[i%4]) {
						want = 2 / float64(q+1)
					}
					near(t, "a probability", got[0].F[((b*time+q)*width + h*time + k):][:1], []float64{want})
				}
				near(t, "lse", got[1].F[(b*heads+h)*time+q:][:1], []float64{math.Log(float64(q + 1))})
			}
		}
	}
}
