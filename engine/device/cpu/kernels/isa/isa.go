package isa

import (
	"fmt"

	"github.com/berth-ml/berth/engine/device/cpu/kernels/vec"
)

// ISA is a set of instructions; each has those before it. Results are the same bits for
// every number of threads with one set, and differ between sets.
type ISA int32

const (
	Generic ISA = iota // plain Go
	AVX2               // AVX2, FMA and BMI2
	AVX512             // AVX-512 F, VL, BW and DQ
	AMX                // and AMX, for products of matrices and convolutions
)

var names = [...]string{Generic: "generic", AVX2: "avx2", AVX512: "avx512", AMX: "amx"}

func (i ISA) String() string { return names[i] }

// Best is the highest set this CPU has.
func Best() ISA { return best }

// PairsPay reports whether products of bfloat16 are fastest by AVX512_BF16, with AVX512.
// CPUs with AMX multiply pairs at half the rate of float32 (112 against 212 GFLOP/s on
// a core of a Sapphire Rapids).
func PairsPay() bool { return pairsPay }

// Parse is the set of that name, and [Best] for "". It fails for other names and for
// sets this CPU does not have.
func Parse(name string) (ISA, error) { return parse(name, Best()) }

// Named is the set of that name, which another CPU may have. It fails for other names.
func Named(name string) (ISA, error) {
	if name == "" {
		return 0, noLevel(name)
	}
	return parse(name, AMX)
}

// parse is Parse on a CPU with best.
func parse(name string, best ISA) (ISA, error) {
	if name == "" {
		return best, nil
	}
	for i := Generic; i <= AMX; i++ {
		switch {
		case i.String() != name:
		case i > best:
			return 0, fmt.Errorf("this CPU does not have %s: take %s or a lower ISA level", name, best)
		default:
			return i, nil
		}
	}
	return 0, noLevel(name)
}

func noLevel(name string) error {
	return fmt.Errorf("there is no ISA level %q: take amx, avx512, avx2 or generic, or leave it empty for the best one", name)
}

// Vec is the functions over arrays.
func (i ISA) Vec() *vec.Funcs {
	switch i {
	case AMX, AVX512:
		return &vec.AVX512
	case AVX2:
		return &vec.AVX2
	}
	return &vec.Generic
}
