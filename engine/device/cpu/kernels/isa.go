package kernels

import (
	"fmt"
	"sync/atomic"

	"github.com/berth-ml/berth/engine/device/cpu/kernels/vec"
)

// Level is which instructions the kernels use. Results are the same bits for
// every number of threads at one level, and differ between levels.
type ISA int32

const (
	Generic ISA = iota // plain Go
	AVX2               // AVX2, FMA and BMI2
	AVX512             // AVX-512 F, VL, BW and DQ
	AMX                // and AMX, for products of matrices and convolutions
)

var isaNames = [...]string{Generic: "generic", AVX2: "avx2", AVX512: "avx512", AMX: "amx"}

func (l ISA) String() string { return isaNames[l] }

// active is the level of kernels that are made from now on.
var active atomic.Int32

func init() { Use(Best()) }

// Use sets the level of the kernels that [New] makes from now on, for the
// whole process. Until it is called, that is [Best].
func Use(l ISA) { active.Store(int32(l)) }

// Using is the level that was set last.
func Using() ISA { return ISA(active.Load()) }

// Best is the highest level this CPU has.
func Best() ISA { return best }

// ParseLevel is the level of that name, and [Best] for "". It fails for other
// names and for levels this CPU does not have.
func ParseISA(name string) (ISA, error) {
	if name == "" {
		return Best(), nil
	}
	for l := Generic; l <= AMX; l++ {
		switch {
		case l.String() != name:
		case l > Best():
			return 0, fmt.Errorf("this CPU does not have %s: take %s or a lower level", name, Best())
		default:
			return l, nil
		}
	}
	return 0, fmt.Errorf("there is no level %q: take amx, avx512, avx2 or generic, or leave it empty for the best one", name)
}

// vec are the functions over arrays.
func (l ISA) vec() *vec.Funcs {
	switch l {
	case AMX, AVX512:
		return &vec.AVX512
	case AVX2:
		return &vec.AVX2
	}
	return &vec.Generic
}
