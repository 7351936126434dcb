// Package host is shared by the kinds of devices whose memory is this machine's.
// It has memory outside the Go heap, and programs: the steps of a plan (package
// planner) with a kernel for each. Streams, buffers and launches are those of
// package streams. It is no kind itself: a kind passes [New] a [Config] with its
// kernels.
//
// A device reserves address space for its budget once; a page takes memory when
// it is first touched, and keeps it.
//
// Launches of one device share its threads. A kernel that packs an input can leave
// the packed copy with the device ([Packer]).
//
// The files use each other downwards: host; bind; run; program; arena; mapping.
// Apart from these, available tells how much memory there is.
//
// The types to know are [Config], [Kernel] and [Packer].
package host
