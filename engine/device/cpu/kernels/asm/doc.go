// Package asm holds the vector kernels of the CPU device in assembly, with the
// Go declarations to call them. A function may only be called where the CPU
// has the instructions that its comment names: package isa finds those.
// On other architectures than amd64 the package is empty.
//
// Everything but this file is written by the generator in ../gen, a module of
// its own: change it there and run go generate.
package asm

//go:generate go run -C ../gen . -dir ..
