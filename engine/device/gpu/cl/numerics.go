package cl

import "strings"

// Abilities of a device's float32 arithmetic, as bits of deviceFPConfig.
const (
	fpDenormals   = 1 << 0
	fpNearest     = 1 << 2
	fpFMA         = 1 << 5
	fpDivideExact = 1 << 7
)

// numerics names the arithmetic on which results depend to the bit. A device that
// rounds as IEEE 754 says has the same bits as any other such device.
func numerics(of found) string {
	var lacks []string
	for _, x := range []struct {
		bit  uint64
		name string
	}{
		{fpNearest, "rounding to nearest"}, {fpFMA, "FMA"}, {fpDenormals, "denormals"}, {fpDivideExact, "exact division"},
	} {
		if of.fp&x.bit == 0 {
			lacks = append(lacks, x.name)
		}
	}
	if lacks == nil {
		return "float32"
	}
	return "float32 of " + of.name + " without " + strings.Join(lacks, ", ")
}

// buildOptions are the compiler's options.
func buildOptions(of found) string {
	options := "-cl-std=CL1.2"
	if of.fp&fpDivideExact != 0 {
		options += " -cl-fp32-correctly-rounded-divide-sqrt"
	}
	return options
}
