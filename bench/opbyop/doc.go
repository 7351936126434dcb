// Command opbyop measures single ops of a Go program, for bench/peers/opbyop, which
// compares them with PyTorch's. It prints JSON: the median and least time of a call, or of a
// training step, in microseconds.
//
//	go run ./bench/opbyop -what add -elements 100
//	go run ./bench/opbyop -what mlp -seconds 3
package main
