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
// The types to know are [Workload], [Options] and [Result].
package bench
