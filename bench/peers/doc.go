// Command peers measures Berth beside PyTorch, GoMLX and llm.c: one training
// step of the workloads of `trainer bench`, on this machine, in one run.
//
//	cd bench/peers
//	go run .                     # everything that is installed: about 10 minutes
//	go run . -only mlp -rounds 1 # a quick look
//	go run . -ops -seconds 1     # single ops, for opbyop.md: about 3 minutes
//	go run . -own                # Berth alone, serving and in little memory: about 2 minutes
//	go run . -from ../../docs/performance.json # tables and chart again, without measuring
//
// It writes performance.json and performance.svg into docs/, and the tables of
// performance.md between two marks. It leaves out programs that are missing,
// names them, and says how to get them.
//
// Programs take turns, a fresh process each time, so that a busy moment of the
// machine hits all alike. PyTorch runs as Debian installs it, and also with
// every setting that was found to make it faster. Of each family the fastest
// variant counts.
//
// Command precision, in the folder of that name, draws losses in float32 and in
// bf16. Command saves measures what checkpoints cost the training. Command kernels
// compares the kernels for the CPU with oneDNN and OpenBLAS.
//
// The types to know are [program], which takes turns, [sample], its measurement
// in a turn, and [report], all measurements.
package main
