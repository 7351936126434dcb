package product

import (
	"fmt"
	"math"
	"testing"

	"github.com/berth-ml/berth/engine/device/cpu/kernels/kernelstest"
	"github.com/berth-ml/berth/engine/ops"
	"github.com/berth-ml/berth/engine/ops/ref"
	"github.com/berth-ml/berth/engine/shape"
)

// TestAttentionKeepsNonFiniteInPlace puts NaN or Inf into one position and
// checks that positions that do not see it have the bits they have without.
func TestAttentionKeepsNonFiniteInPlace(t *testing.T) {
	rig.EachISA(t, func(t *testing.T, r kernelstest.Rig) {
		testNonFiniteAttention(t, r, false)
		testNonFiniteAttention(t, r, true)
	})
}

func testNonFiniteAttention(t *testing.T, r kernelstest.Rig, bf16 bool) {
	const steps, width, heads = 260, 20, 2 // two pieces
	op := ops.Attention{Heads: heads, BF16: bf16}
	out, err := ref.Run(op, []ref.Array{kernelstest.Noise(1, steps, 3*width)})
	if err != nil {
		t.Fatal(err)
	}
	run := func(which, at int, bad float64) (y, dqkv []float32) {
		qkv, dy := kernelstest.Noise(1, steps, 3*width), kernelstest.Noise(1, steps, width)
		switch {
		case which >= 0 && which < 3:
			qkv.F[at*3*width+which*width+3] = bad
		case which == 3:
			dy.F[at*width+3] = bad
		}
		forward := r.Run(t, kernelstest.Of(op, 0, qkv), nil, kernelstest.Team{N: 2})
		back := r.Run(t, kernelstest.Of(ops.AttentionGrad(op), 0, qkv, out[0], out[1], dy), nil, kernelstest.Team{N: 2})
		return shape.View[float32](forward.Out[0].Mem), shape.View[float32](back.Out[0].Mem)
	}
	y, dqkv := run(-1, 0, 0)
	for _, bad := range []float64{math.NaN(), math.Inf(1), math.Inf(-1)} {
		for _, at := range []int{1, 13, 64, 200, 258} {
			for which, name := range []string{"query", "key", "value", "dy"} {
				got, grad := run(which, at, bad)
				where := fmt.Sprintf("bf16 %v, %v in %s %d", bf16, bad, name, at)
				for q := range steps {
					if q < at || which == 0 && q != at || which == 3 {
						sameRow(t, where+": y", q, got[q*width:][:width], y[q*width:][:width])
					}
					if q < at || (which == 0 || which == 3) && q != at {
						sameRow(t, where+": dq", q, grad[q*3*width:][:width], dqkv[q*3*width:][:width])
					}
					if (which == 0 || which == 3) && q > at {
						sameRow(t, where+": dk and dv", q, grad[(q*3+1)*width:][:2*width], dqkv[(q*3+1)*width:][:2*width])
					}
				}
			}
		}
	}
}

// TestWindowsKeepNonFiniteInPlace does so where heads share keys and values, and each position
// sees those next to it, before it or on both sides.
func TestWindowsKeepNonFiniteInPlace(t *testing.T) {
	rig.EachISA(t, func(t *testing.T, r kernelstest.Rig) {
		testNonFiniteWindow(t, r, false)
		testNonFiniteWindow(t, r, true)
	})
}

func testNonFiniteWindow(t *testing.T, r kernelstest.Rig, bf16 bool) {
	const steps, size, window, at = 200, 5, 30, 100
	for _, full := range []bool{false, true} {
		op := ops.Attention{Heads: 4, KVHeads: 2, Full: full, Window: window, BF16: bf16}
		width := 8 * size
		out, err := ref.Run(op, []ref.Array{kernelstest.Noise(1, steps, width)})
		if err != nil {
			t.Fatal(err)
		}
		run := func(which int, bad float64) (y, dqkv []float32) {
			qkv, dy := kernelstest.Noise(1, steps, width), kernelstest.Noise(1, steps, 4*size)
			if which == 3 {
				dy.F[at*4*size+3] = bad
			} else if which >= 0 {
				qkv.F[at*width+[]int{0, 4, 6}[which]*size+3] = bad
			}
			forward := r.Run(t, kernelstest.Of(op, 0, qkv), nil, kernelstest.Team{N: 2})
			back := r.Run(t, kernelstest.Of(ops.AttentionGrad(op), 0, qkv, out[0], out[1], dy), nil, kernelstest.Team{N: 2})
			return shape.View[float32](forward.Out[0].Mem), shape.View[float32](back.Out[0].Mem)
		}
		y, dqkv := run(-1, 0)
		for which, name := range []string{"query", "key", "value", "dy"} {
			got, grad := run(which, math.NaN())
			for q := range steps {
				where := fmt.Sprintf("NaN in %s, full %v", name, full)
				sees := q >= at && q < at+window || full && q > at-window && q < at+window
				if !sees || which == 0 && q != at || which == 3 {
					sameRow(t, where+": y", q, got[q*4*size:][:4*size], y[q*4*size:][:4*size])
				}
				if !sees || (which == 0 || which == 3) && q != at {
					sameRow(t, where+": dq", q, grad[q*width:][:4*size], dqkv[q*width:][:4*size])
				}
				if seen := q <= at && q > at-window || full && q >= at && q < at+window; (which == 0 || which == 3) && !seen {
					nearRow(t, where+": dk and dv", q, grad[q*width+4*size:][:4*size], dqkv[q*width+4*size:][:4*size])
				}
			}
		}
	}
}

// nearRow is sameRow for sums that are added up in other pieces.
func nearRow(t *testing.T, where string, q int, got, want []float32) {
	t.Helper()
	for i := range want {
		if d := float64(got[i] - want[i]); !(math.Abs(d) <= 1e-6) {
			t.Fatalf("%s of position %d, element %d is %v, and %v without", where, q, i, got[i], want[i])
		}
	}
}

func sameRow(t *testing.T, where string, q int, got, want []float32) {
	t.Helper()
	for i := range want {
		if math.Float32bits(got[i]) != math.Float32bits(want[i]) {
			t.Fatalf("%s of position %d, element %d is %v, and %v without", where, q, i, got[i], want[i])
		}
	}
}

// TestAttentionRoundsEachFactor: with numbers of which each rounds to another, three equal keys, and
// so probabilities of 1/3, which is none of bfloat16.
func TestAttentionRoundsEachFactor(t *testing.T) {
	rig.EachISA(t, func(t *testing.T, r kernelstest.Rig) {
		const x, near = 1 + 1.0/256 + 1.0/4096, 1 + 1.0/128 // x is above the middle of 1 and near, which are neighbours
		op := ops.Attention{Heads: 1, Full: true, BF16: true}
		qkv, dy := ref.New(shape.F32(1, 3, 3)), ref.New(shape.F32(1, 3, 1))
		for i := range qkv.F {
			qkv.F[i] = x
		}
		for i := range dy.F {
			dy.F[i] = x
		}
		third := float64(ops.RoundBF16(1.0 / 3))
		forward := r.Run(t, kernelstest.Of(op, 0, qkv), nil, kernelstest.Serial{})
		y, lse := shape.View[float32](forward.Out[0].Mem), shape.View[float32](forward.Out[1].Mem)
		for q := range y {
			if want := 3 * third * near; math.Abs(float64(y[q])-want) > 1e-6 {
				t.Errorf("y of query %d is %v, and %v of rounded factors", q, y[q], want)
			}
			if want := near*near + math.Log(3); math.Abs(float64(lse[q])-want) > 1e-6 {
				t.Errorf("lse of query %d is %v, and %v of rounded factors", q, lse[q], want)
			}
		}
		out, err := ref.Run(op, []ref.Array{qkv})
		if err != nil {
			t.Fatal(err)
		}
		back := r.Run(t, kernelstest.Of(ops.AttentionGrad(op), 0, qkv, out[0], out[1], dy), nil, kernelstest.Serial{})
		for i, got := range shape.View[float32](back.Out[0].Mem) {
			// The gradient of each score is 1/3 of dp - delta, which the rounding of 1/3 leaves.
			delta := near * 3 * third * near
			want := 3 * float64(ops.RoundBF16(float32((near*near-delta)/3))) * near
			if i%3 == 2 {
				want = 3 * third * near
			}
			if math.Abs(float64(got)-want) > 2e-6 {
				t.Errorf("number %d of dqkv is %v, and %v of rounded factors", i, got, want)
			}
		}
	})
}
