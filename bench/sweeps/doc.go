// Command sweeps measures what sweeps of digits find, with trainer itself.
//
// For each seed of a sweep it trains 81 trials whole, and then the same ones with --halving, which finds their values
// known and trains none anew. It prints which share of the steps halving takes, and which place its winner has among all
// trials trained whole. Then it compares the best of 40 trials of strategy tpe with that of random, over seeds. Those
// trials are a quarter as long.
//
// go run ./bench/sweeps -trainer PATH -out FOLDER takes about 15 minutes of two cores. Stopped, the same command goes on.
// docs/sweeps.md has what it printed.
package main
