// Package isa names the instruction sets that the kernels use ([ISA]), and finds those of
// this CPU ([Best]). An ISA is passed to whatever needs it; none is set for the process.
package isa
