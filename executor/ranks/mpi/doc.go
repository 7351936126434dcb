// Package mpi carries messages between ranks by MPI, which it finds at run time. Nothing
// of MPI is needed to build, and nothing is loaded where no launcher has started several
// processes.
//
// [Open] is the one function to know. One thread calls MPI, as its simplest mode asks
// (MPI_THREAD_FUNNELED): others hand their messages to it. It asks for the end of what is
// under way with a growing pause, and sleeps while nothing is. Work that mostly waits for
// messages, such as a sum, it does itself: see [World.Run].
//
// Open MPI, MPICH and those with their ABIs (Intel MPI, MVAPICH, Cray), and the ABI that
// MPI 5 defines differ in three handles: the world, the byte, and what an error does.
package mpi
