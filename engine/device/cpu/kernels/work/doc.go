// Package work defines kernels, and holds the parts that all kernels share: tasks and pools,
// the arguments of a run, how work is cut into chunks, and the tables in which kernels
// are found.
//
// The types to know are [Kernel], [Args], [Pool], [Task] and [Target].
package work
