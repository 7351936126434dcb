// Package host is what the kinds of devices share whose memory is this
// machine's: an arena outside the Go heap, streams, and the planner that turns
// a graph into a list of kernels over planned memory, each for a cluster of nodes
// (see package fuse). It is no kind itself and registers nothing; a kind passes
// [New] a [Config] with its kernels.
//
// Memory. A device reserves address space once and hands out blocks aligned to
// 64 bytes. Freed blocks wait in a list by exact size, so a steady state finds
// them at once; when the budget is reached they are merged and their pages go
// back to the system. Buffers that queued work still uses are freed when that
// work has ended.
//
// Streams. One goroutine each works through a bounded ring of commands. A
// command's number is its sequence number, and an event is (stream, number).
//
// Launches of one device never overlap, whatever stream they are queued on: they
// share one scratch region, as large as the largest executable needs, and the
// device's threads. Copies do overlap with them.
//
// What a kernel makes of an input that does not change it can keep ([Keeper]), in
// memory that the device takes back when it has no other.
//
// The types to know are [Device], [Config], [Kernel] and [Stream].
package host
