// Package vec holds functions over float32 arrays: arithmetic, transcendental
// functions, gradients, sums and optimizer updates. The kernels are made of
// them, alone and fused, so that a fused kernel gives the bits of its parts.
//
// There is a table of them ([Funcs]) for each instruction set: [Generic] in
// plain Go, and for amd64 [AVX2] and [AVX512] in assembly. The tables differ
// in last bits. On vectors, transcendental functions are polynomials, within
// these units of the last place of the true value, as TestAccuracy checks (in
// brackets the most that a sweep over every 61st float has seen): exp 1.5
// (1.00), log 1 (0.77), rsqrt 1.5 (1.49), tanh 2 (1.50), sigmoid 3 (2.36), silu
// 3.5 (2.83, from -88 on), gelu_erf 10 (8.5).
// gelu_tanh and the gradients of activations are within 1e-6 of it, relative to the
// larger of the value and 1: their negative tails have few bits. A sigmoid
// below 1e-38 is 0. The rest is IEEE arithmetic. NaN passes through, and
// results underflow gradually.
package vec
