// Package host is shared by the kinds of devices whose memory is this
// machine's. It has memory outside the Go heap, streams, and a planner that
// turns a graph into kernels over planned memory, one for each cluster of nodes
// (see package fuse). It is no kind itself: a kind passes [New] a [Config] with
// its kernels.
//
// Memory. A device reserves address space once and hands out blocks aligned to
// 64 bytes. Freed blocks wait in a list by exact size, so a steady state finds
// them at once. When the budget is reached they are merged, and their pages go
// back to the system. Buffers that queued work still uses are freed when that
// work has ended.
//
// Streams. Each has one goroutine, which works through a bounded ring of
// commands. An event is a stream and a command's number.
//
// Launches of one device never overlap, whatever streams they are queued on.
// They share the device's threads and one scratch region, as large as the
// largest executable needs. Copies do overlap with them.
//
// A kernel that packs an input can leave the packed copy with the device
// ([Packer]), which takes its memory back when it has no other.
//
// The files use each other downwards: device; stream, executable; queue;
// command; run, launch; program, workspace; packed, buffer, heap; arena. Beside
// them, plan turns a graph into steps, by order, inplace and layout.
//
// The types to know are [Device], [Config], [Kernel] and [Stream].
package host
