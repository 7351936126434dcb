// Package streams is the part of a device that is the same for every kind: its
// budget shared out to buffers, streams of queued commands, launches, and what
// happens when one of them fails or never ends. It knows offsets, and no memory
// and no kernel: a kind passes [New] a [Config] with a [Memory] and a function
// that makes a [Program] of a plan (package planner).
//
// Memory. Package memory shares the budget out in the order of submission, and
// streams wait for the uses of what they get. Handles of freed buffers are reused
// once queued work no longer refers to them.
//
// Streams. Each has one goroutine, which works through its backlog of commands;
// queueing never waits. An event is a stream and a command's number.
//
// Launches of one device never overlap, whatever streams they are queued on.
// Copies do overlap with them. A launch can begin before all of its inputs are there,
// and its outputs are ready one by one: it has a number for each step that completes
// some of them.
//
// A program that packs an input can leave the packed copy with the device. It is
// a guest in free memory, which leaves as soon as that memory is allocated, and no
// allocation depends on it.
//
// Begin with device.go; config.go has what a kind brings. compile makes executables. A stream checks
// an operation, makes a command of it, and puts that in its queue. launch is a run of an executable.
// The memory is in heap, buffer and packed, that of the host in hostbuffer.
//
// The types to know are [Config], [Memory], [Program] and [Launch].
//
// # Why does a device that waits for another wake soon?
//
// Handing a tensor over takes two wakings: of the queue that copies, and of the queue that computes behind
// it. Each queue is a goroutine. Three things would make them slow:
//
//   - Waking waiters under the queue's lock. A waiter begins by taking that lock, so it would sleep
//     again, and once more for each waiter behind it. The lock is given up first.
//   - Waiting for the launch that has made a tensor, and then for the copy of it: a failure of either
//     is the reader's own, but it would wake twice. It waits for the end of the copy first, and then
//     finds that the launch has ended.
//   - A nap. The Go runtime leaves a goroutine that a thread has just woken to that thread for 3 µs,
//     before another thread takes it over. Linux makes that nap 50 µs longer, unless the thread has
//     asked for better (`PR_SET_TIMERSLACK`). A queue asks whenever it is about to sleep: threads are
//     the runtime's, so none can be asked once and for all.
//
// Waiting awake would be faster still. But a bubble takes milliseconds, in which other devices may need the
// core.
package streams
