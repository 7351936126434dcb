// Package bench measures training on five workloads, from a small perceptron
// to GPT-2, on the path that every training takes: graph, plan, residency,
// executor. The batches are random and the same in every run. They lie in host
// memory of the device, so that reading data is not measured.
//
// [Run] opens devices, warms up and measures. It also measures the devices'
// peak, the rate of a large matrix product; a [Result] states the workload's
// rate as a share of it. [Flops] counts the model's arithmetic alone.
//
// With RunOptions.Profile every kernel is timed, and [WriteProfile] prints the
// sums for each kind. The folder peers, a module of its own, measures other
// programs on the same workloads.
//
// The types to know are [Workload], [RunOptions], [Result] and [KernelTime].
package bench
