// Command kernels measures Berth's kernels for the CPU beside oneDNN and OpenBLAS, on this machine, in one run. Its
// table says by what later work on kernels is judged: Berth's time over the best peer's, below 1 where Berth is faster.
//
//	apt-get install libdnnl2 libopenblas0
//	cd bench/peers
//	go run ./kernels                         # all rows: about 15 minutes for each level on 2 cores
//	go run ./kernels -only conv2d            # rows of some ops
//	go run ./kernels -only 'gpt2 dw'         # or of a part of a net
//	go run ./kernels -write                  # and write docs/kernels/MACHINE.csv, with a summary in docs/performance.md
//	BERTH_CPU=avx2 go run ./kernels          # one level of instruction sets
//
// It needs Linux for its full care, and no C compiler: the libraries are loaded when it runs. oneDNN is version 2, whose C
// interface version 3 changed.
//
// # Rows
//
// The rows are the nodes of graphs: those of the training steps of mlp, cnn, gpt-nano, gpt-small and gpt2, with the
// batches of `trainer bench`, and of ResNet-50, MobileNet and ViT-B (8 images) and Llama 1B (256 tokens); and the
// products of GPT-2 and Llama 1B that answer 1, 8 and 128 tokens. The head of Llama 1B, of 1 GB, is left out. Each
// kernel is there once, with the nets that have it.
// Products and convolutions are in float32 and, where the CPU has instructions for it, in bfloat16. It measures with 1 and 2 threads,
// on each level from AVX2 on, and holds the peers to that level. Plain Go has no peer on CPUs that have a level above it;
// BERTH_CPU=generic compares it with the peers' best.
//
// # What is timed
//
// Of Berth the kernel alone, as the device tells it to `trainer bench --profile`: the one that a step launches where
// nothing is fused to it. Of a peer the call, which takes some 0.1 µs longer.
//
// Tensors of the peers lie as they like best, as they would between the layers of a net of theirs, and are brought there
// beforehand; Berth's lie as its steps have them. That goes for weights of convolutions, too, which Berth packs in each
// run: oneDNN has no fast convolution of plain ones. Weights of products in float32 are plain for all, since each
// step changes them. Where they stay, in rows marked "kept", oneDNN may also have them in its own layout; Berth packs those
// of float32 in each run. In bfloat16 both keep weights packed, but not in gradients of weights, where both factors are
// new in each step; Berth rounds float32 as it packs, and peers are given bfloat16.
// Where oneDNN has several ways (layouts of a pool), the fastest in a short try plays. Convolutions are direct, as
// Winograd's have fewer digits.
//
// oneDNN 2 has no RMS normalization: its layer normalization of rows whose mean is 0, which gives the same numbers, stands
// for it. Attention is a composition of its products, mask and softmax; the gradient is given the probabilities, which Berth
// computes again.
//
// Each row's results are compared before it is measured. Beyond 0.0001 of the largest number they are an error, and the row
// is left out.
//
// # How it is measured
//
// Each library is a process of its own (a side), so that each has its threads and reads its variables. Sides take turns, in
// rotated order: 5 turns each at a row. Between its turns a side is stopped, since the threads of OpenMP and OpenBLAS
// spin. The ratio of a row is that of the least times, so moments in which others compute do not count. The table also has
// the ratio of the medians of the turns' medians, and the median over the rounds of the ratio of their least times.
//
// A probe, the same arithmetic again and again, is timed before each round. Where its times are further apart than 10 %, the
// machine has changed its speed: another clock, or a neighbour on the same core. The row then has up to 9 rounds, so that each
// side has turns at full speed, and the row and the summary say so.
//
// The types to know are [row], [contest], which gives turns, [library] and [job], what a side computes with, and [table].
package main
