package product

import (
	"slices"
	"testing"

	"github.com/berth-ml/berth/engine/device/cpu/kernels/kernelstest"
)

func TestZip(t *testing.T) { rig.EachISA(t, testZip) }

func testZip(t *testing.T, r kernelstest.Rig) {
	set := r.On.ISA
	for n := 1; n < 140; n++ {
		all := make([]float32, n+2) // with a guard on each side
		for i := range all {
			all[i] = float32(i)
		}
		whole := all[1 : n+1]
		even, odd := make([]float32, (n+1)/2+2), make([]float32, n/2+2)
		unzip(set, even[1:len(even)-1], whole)
		if n > 1 {
			unzip(set, odd[1:len(odd)-1], whole[1:])
		}
		for i := range n {
			if from := [2][]float32{even, odd}[i%2]; from[1+i/2] != whole[i] {
				t.Fatalf("of %d numbers, number %d becomes %v", n, i, from[1+i/2])
			}
		}
		again := make([]float32, n+2)
		zip(set, again[1:n+1], even[1:len(even)-1], odd[1:len(odd)-1])
		if again[0] != 0 || again[n+1] != 0 || !slices.Equal(again[1:n+1], whole) {
			t.Fatalf("%d numbers become %v", n, again)
		}
		for _, part := range [][]float32{even, odd} {
			if part[0] != 0 || part[len(part)-1] != 0 {
				t.Fatalf("unzip of %d numbers writes outside", n)
			}
		}
	}
}
