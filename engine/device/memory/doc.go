// Package memory shares out a range of bytes in the order of submission. It
// knows offsets and sizes, and no kind of device.
//
// A block is free again as soon as it is given back, although queued work may
// still use it: the giver names the last uses, one event per queue, and whoever
// takes the bytes next is told the events that its own queue must wait for.
// Nothing is decided by asking whether an event has ended. So equal calls give
// equal offsets and equal waits, and the bytes in use repeat from run to run.
//
// The types to know are [Space] and [Block].
package memory
