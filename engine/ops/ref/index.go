package ref

import "github.com/berth-ml/berth/engine/shape"

// strides are the steps between the elements of x when broadcasting stretches
// it to out: 0 along the dimensions that it stretches.
func strides(x, out shape.Shape) []int {
	st, own := make([]int, len(out)), x.Strides()
	for i := range x {
		if x[i] != 1 {
			st[len(out)-len(x)+i] = own[i]
		}
	}
	return st
}

// each calls f for every element of s in order, with its number and its index.
// The index counts like an odometer: the last dimension turns fastest. f must
// not keep it.
func each(s shape.Shape, f func(i int, ix []int)) {
	ix := make([]int, len(s))
	for i := range s.Elems() {
		f(i, ix)
		for k := len(s) - 1; k >= 0; k-- {
			if ix[k]++; ix[k] < s[k] {
				break
			}
			ix[k] = 0
		}
	}
}

// at is the position of an index under strides.
func at(ix, st []int) int {
	p := 0
	for k, i := range ix {
		p += i * st[k]
	}
	return p
}
