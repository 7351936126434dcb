// Command sweeps measures what sweeps of digits find, with trainer itself.
//
// For each seed of a sweep it trains 81 trials whole, and the same ones with --halving. It prints which share of the steps
// halving takes, and which place its winner has among all trials trained whole. Then it compares the best of 40 trials of
// strategy tpe with that of random, over seeds. Those trials have 10 of the 40 epochs, so that 1,600 of them are trained
// soon.
//
//	go build -o /tmp/trainer ./cmd/trainer
//	go run ./bench/sweeps -trainer /tmp/trainer -out /tmp/sweeps
//
// That takes about 20 minutes of two cores. docs/sweeps.md has what it printed.
package main
