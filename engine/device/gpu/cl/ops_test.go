package cl

import (
	"testing"

	"github.com/berth-ml/berth/engine/device/cpu/kernels/kernelstest"
	"github.com/berth-ml/berth/engine/device/gpu/gen"
	"github.com/berth-ml/berth/internal/testall"
)

// few are the kinds that tests run by default: a driver takes a tenth of a second or more
// to compile a kernel.
var few = []string{"add", "gelu_erf", "reduce_sum", "matmul", "softmax", "layer_norm", "adam", "lion", "sum_squares", "nonzero", "unique"}

// kindsAndSizes are the ops to test, and the sizes of work groups.
func kindsAndSizes() (kinds []string, sizes []int) {
	if testall.Wanted() {
		return gen.Kinds(), []int{64, 1}
	}
	return few, []int{64, 256}
}

// TestOps compares every op with its reference, out of place and in place, and its bits
// between sizes of work groups. Nothing but outputs is written, and nothing after a failure.
func TestOps(t *testing.T) {
	kinds, sizes := kindsAndSizes()
	r := newRig(t)
	var list []kernelstest.Sample
	for _, kind := range kinds {
		if kernelstest.Cases[kind] == nil {
			t.Errorf("no case of %s", kind)
			continue
		}
		list = append(list, samples(kind, testall.Or(6, 20))...)
	}
	trials, image := r.trials(list)
	t.Log(len(trials), "trials of", len(r.library.kernels), "kernels")
	var first []byte
	for _, size := range sizes {
		after := r.run(trials, image, size)
		if s := r.status(); s != 0 {
			t.Fatalf("%v failed", trials[s-1].node)
		}
		if first == nil {
			first = after
			r.ok(unwritten(trials, image, after))
		}
		for _, x := range trials {
			if err := x.check(after); err != nil {
				t.Error(err)
			}
			if err := sameBits(x, first, x, after); err != nil {
				t.Errorf("in groups of %d lanes: %v", size, err)
			}
			if x.plain == nil {
				continue
			}
			if err := sameBits(x, after, x.plain, after); err != nil {
				t.Errorf("in place: %v", err)
			}
		}
	}
	r.setStatus(1)
	r.ok(idle(trials, image, r.run(trials, image, sizes[0])))
}
