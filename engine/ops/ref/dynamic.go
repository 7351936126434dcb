package ref

import (
	"cmp"
	"slices"

	"github.com/berth-ml/berth/engine/ops"
)

var dynamics = map[string]kernel{
	"nonzero": of(nonzero),
	"unique":  of(unique),
}

// numbers are the elements of an array of either type. None is -0.
func numbers(a Array) []float64 {
	x := slices.Clone(a.F)
	for _, v := range a.I {
		x = append(x, float64(v))
	}
	for i := range x {
		x[i] += 0 // -0 + 0 is 0
	}
	return x
}

func nonzero(_ ops.Nonzero, in, out []Array) {
	x, rank, n := numbers(in[0]), in[0].Meta.Shape.Rank(), 0
	each(in[0].Meta.Shape, func(i int, ix []int) {
		if x[i] == 0 {
			return
		}
		for axis, k := range ix {
			out[0].I[n*rank+axis] = int32(k)
		}
		n++
	})
	out[1].I[0] = int32(n)
}

func unique(_ ops.Unique, in, out []Array) {
	x := numbers(in[0])
	same := func(a, b float64) bool { return nanLast(a, b) == 0 }
	values := slices.CompactFunc(slices.SortedFunc(slices.Values(x), nanLast), same)
	for k, v := range values {
		if out[0].I != nil {
			out[0].I[k] = int32(v)
		} else {
			out[0].F[k] = v
		}
	}
	for i, v := range x {
		k, _ := slices.BinarySearchFunc(values, v, nanLast)
		out[1].I[k]++
		out[2].I[i] = int32(k)
	}
	n := int32(len(values))
	out[3].I[0], out[3].I[1] = n, n
}

// nanLast compares numbers. NaN comes behind all others.
func nanLast(a, b float64) int {
	if a != a || b != b {
		return -cmp.Compare(a, b) // where NaN comes first
	}
	return cmp.Compare(a, b)
}
