// Package host is shared by the kinds of devices whose memory is this
// machine's. It has memory outside the Go heap, streams, and programs: the
// steps of a plan (package planner) with a kernel for each. It is no kind itself:
// a kind passes [New] a [Config] with its kernels.
//
// Memory. A device reserves address space for its budget once; a page takes
// memory when it is first touched, and keeps it. Package memory shares the space
// out in the order of submission, and streams wait for the uses of what they get.
// Handles of freed buffers are reused once queued work no longer refers to them.
//
// Streams. Each has one goroutine, which works through its backlog of
// commands; queueing never waits. An event is a stream and a command's number.
//
// Launches of one device never overlap, whatever streams they are queued on.
// They share the device's threads. Copies do overlap with them.
//
// A kernel that packs an input can leave the packed copy with the device
// ([Packer]). It is a guest in free memory, which leaves as soon as that memory is
// allocated, and no allocation depends on it.
//
// The files use each other downwards: device; stream, executable; queue;
// backlog, command; compact, run, launch; program; packed, guest, buffer, heap; arena.
// Beside them, bind turns a plan into a program.
//
// The types to know are [Device], [Config], [Kernel] and [Stream].
package host
