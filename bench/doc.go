// Package bench measures training on five workloads, from a small perceptron
// to GPT-2, on the path that every training takes: graph, plan, residency,
// executor. Batches are random but always the same ones, and lie in pinned
// memory, so that no reading of data is measured.
//
// [Run] opens devices, warms up and measures for a while. Before and after it
// measures the same kind of devices' speed at a large matrix product, against
// which a [Result] states the workload's. What is counted as a workload's arithmetic is the
// model's alone: see [Flops].
//
// With RunOptions.Profile every kernel is timed, and [WriteProfile] prints the sum
// of each kind. The folder peers, a module of its own, measures other programs
// on the same workloads.
//
// The types to know are [Workload], [RunOptions], [Result] and [KernelTime].
package bench
