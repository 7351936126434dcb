package cl

import (
	"math/rand/v2"
	"testing"

	"github.com/berth-ml/berth/engine/device/cpu/kernels/kernelstest"
	"github.com/berth-ml/berth/engine/ops"
	"github.com/berth-ml/berth/engine/ops/ref"
	"github.com/berth-ml/berth/internal/testall"
)

// TestWideHeads compares attention with its reference for heads of many elements, whose
// blocks are smaller.
func TestWideHeads(t *testing.T) {
	if !testall.Wanted() {
		t.Skip("compiles large kernels: set TEST_ALL")
	}
	r := newRig(t)
	var list []kernelstest.Sample
	for _, size := range []int{140, 33, 300} {
		s := kernelstest.Source{Rng: rand.New(rand.NewPCG(uint64(size), 1))}
		op := ops.Attention{Heads: 2}
		qkv := s.Normal(2, 67, 3*2*size)
		y, err := ref.Run(op, []ref.Array{qkv})
		r.ok(err)
		list = append(list, kernelstest.Of(op, 5e-5, qkv),
			kernelstest.Of(ops.AttentionGrad(op), 2e-4, qkv, y[0], y[1], s.Normal(2, 67, 2*size)))
	}
	trials, image := r.trials(list)
	after := r.run(trials, image, 64)
	r.ok(unwritten(trials, image, after))
	for _, x := range trials {
		r.ok(x.check(after))
	}
}
