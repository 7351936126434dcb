// Package vec holds functions over float32 arrays: arithmetic, transcendental
// functions, gradients, sums and optimizer updates. The kernels are made of
// them, alone and fused, so that a fused kernel gives the bits of its parts.
//
// There is a table of them ([Funcs]) for each level of the CPU: [Generic] in
// plain Go, and for amd64 [AVX2] and [AVX512] in assembly. The tables differ
// in last bits. On vectors, transcendental functions are polynomials, within
// these units of the last place of the true value, as the tests check: exp 3,
// log 4, tanh and sigmoid 4, silu 5, gelu_erf 13. gelu_tanh and the gradients
// of activations are within 1e-6 of it, relative to what is larger, the value
// or 1: their negative tails have few bits. The rest is IEEE arithmetic. NaN
// passes through, and results underflow gradually.
package vec
