// Package ranks lets the processes of one run, its ranks, send bytes to each other.
//
// [Launched] says whether a launcher, such as mpirun or srun, has started this process
// together with others. A [Transport] carries messages between them: [NewLoop] has one
// within a process, package mpi one between processes and machines. It only posts, and
// an event tells of the end, as a device's stream does: nobody waits who need not.
//
// [Reduction] sums a vector over all ranks, always in the same order, so that every
// number of ranks that is a power of two gives the bits of a tree over all of them.
//
// The types to know are [Launch], [Transport], [Operations] and [Reduction].
package ranks
