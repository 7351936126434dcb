package ref

import "github.com/berth-ml/berth/engine/ops"

var products = map[string]kernel{"matmul": of(matmul)}

func matmul(o ops.MatMul, in, out []Array) {
	a, b, c := in[0], in[1], out[0]
	if o.BF16 {
		a, b = roundBF16(a), roundBF16(b)
	}
	m, n, k := o.Dims(a.Meta.Shape, b.Meta.Shape)
	// Element (i, l) of a is at i*ai + l*ak, element (l, j) of b at l*bk + j*bj.
	ai, ak := k, 1
	if o.TransA {
		ai, ak = 1, m
	}
	bk, bj := n, 1
	if o.TransB {
		bk, bj = 1, k
	}
	shared := b.Meta.Shape.Rank() < a.Meta.Shape.Rank() // one b for all batches
	batches := a.Meta.Shape[:a.Meta.Shape.Rank()-2].Elems()
	for p := range batches {
		pa, pb, pc := p*m*k, p*k*n, p*m*n
		if shared {
			pb = 0
		}
		for i := range m {
			for j := range n {
				sum := 0.0
				for l := range k {
					sum += a.F[pa+i*ai+l*ak] * b.F[pb+l*bk+j*bj]
				}
				c.F[pc+i*n+j] = sum
			}
		}
	}
}

// roundBF16 is a copy, rounded to bfloat16.
func roundBF16(a Array) Array {
	r := New(a.Meta)
	for i, v := range a.F {
		r.F[i] = roundedBF16(v)
	}
	return r
}

func roundedBF16(v float64) float64 { return float64(ops.RoundBF16(float32(v))) }
