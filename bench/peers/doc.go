// Command peers measures Berth beside PyTorch, GoMLX and llm.c: one training
// step of the workloads of `trainer bench`, on this machine, in one run.
//
//	cd bench/peers
//	go run .                     # everything that is installed: about 10 minutes
//	go run . -only mlp -rounds 1 # a quick look
//	go run . -from ../../docs/performance.json # tables and picture again, without measuring
//
// It writes performance.json, performance.svg and, between two marks, the tables
// of performance.md into docs/. What is missing it names, says how to get it,
// and leaves out.
//
// Programs take turns, a fresh process each time, so that a busy moment of the
// machine meets all alike. PyTorch runs as Debian installs it and once more with
// everything that was found to make it faster; of each, the fastest variant is
// what counts.
//
// Command precision, in the folder of that name, draws the losses in float32
// and in bf16.
//
// The types to know are [program], one of those that take turns, [sample], what
// it measured in one of them, and [report], all of it.
package main
