package isa

import "golang.org/x/sys/cpu"

var best = detect()

func detect() ISA {
	x := &cpu.X86
	switch {
	case !x.HasAVX2 || !x.HasFMA || !x.HasBMI2:
		return Generic
	case !x.HasAVX512F || !x.HasAVX512VL || !x.HasAVX512BW || !x.HasAVX512DQ:
		return AVX2
	case !x.HasAMXTile || !x.HasAMXBF16 || !allowTiles():
		return AVX512
	}
	return AMX
}

// pairsPay is for [PairsPay].
var pairsPay = cpu.X86.HasAVX512BF16 && !cpu.X86.HasAMXBF16
