// Package cpu is the device kind "cpu": the machine's cores, divided over as
// many devices as are asked for, each with a memory arena of its own outside
// the Go heap, so that several of them behave like several accelerators.
// Importing the package registers the kind.
//
// Kernels are in package kernels; memory, streams and planning are in package host. This
// package joins them: it holds the thread pool of a device ([pool]), and binds kernels to
// it. Threads of it that stay on one core while another is idle part again ([lane]). Results
// never depend on the number of threads: kernels cut their work into the same chunks whatever
// it is.
package cpu
