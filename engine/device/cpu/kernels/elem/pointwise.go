package elem

import "github.com/berth-ml/berth/engine/device/cpu/kernels/work"

// Pointwise is the function of a kernel that computes each element from elements of the
// same place. Exactly one of One, Two, Three, VV, Scaled, Drop and Copies is set; VS and SV
// are VV for a second or first operand that is one number.
type Pointwise struct {
	One    unaryFunc
	Two    pairFunc
	Three  func(y, a, b, c []float32)
	VV     pairFunc
	VS, SV scalarFunc
	Scaled func(y, a, b []float32, s float32)
	Drop   *Dropout
	Copies bool // the operand as it is
}

// PointwiseOf is the function of k, if k computes each element from elements of the
// same place.
func PointwiseOf(k work.Kernel) (Pointwise, bool) {
	switch k := k.(type) {
	case *unaryKernel:
		return Pointwise{One: k.f}, true
	case *pairKernel:
		return Pointwise{Two: k.f}, true
	case *selectKernel:
		return Pointwise{Three: choose}, true
	case *binaryKernel:
		return Pointwise{VV: k.vv, VS: k.vs, SV: k.sv}, true
	case *scaledPairKernel:
		return Pointwise{Scaled: k.f}, true
	case *Dropout:
		return Pointwise{Drop: k}, true
	case broadcast:
		return Pointwise{Copies: true}, true
	}
	return Pointwise{}, false
}
