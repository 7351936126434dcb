// Package vec holds functions over float32 arrays: arithmetic, transcendental
// functions, gradients, sums and optimizer updates. The kernels are made of
// them, alone and fused, so that a fused kernel gives the bits of its parts.
//
// There is a table of them ([Funcs]) for each level of the CPU: [Generic] in
// plain Go, and for amd64 [AVX2] and [AVX512] in assembly. The tables differ
// in last bits. On vectors, exp, log, tanh, sigmoid, silu and gelu are
// polynomials within 4 ulp of the true value (3 for exp, log and tanh), as the
// tests check; IEEE arithmetic is exact. NaN and infinities are passed through
// as the functions' definitions say, and results underflow gradually.
package vec
