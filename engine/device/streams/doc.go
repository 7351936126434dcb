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
// The files use each other downwards: compile, device; stream, executable; cache; queue; backlog,
// command; compact, run, launch; packed, guest, buffer, heap; config.
//
// The types to know are [Config], [Memory], [Program] and [Launch].
package streams
