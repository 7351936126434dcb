// Package isa names the instruction sets that the kernels use ([ISA]), and finds those of
// this CPU ([Best]). An ISA is passed to whatever needs it; none is set for the process.
//
// # Why is the instruction set passed, and not set?
//
// A setting of the whole process is hidden in every call that depends on it. Kernels get their instruction
// set when they are made, so tests of all ISA levels run side by side. `BERTH_CPU` is read in one place,
// where the devices are opened.
package isa
