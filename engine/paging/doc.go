// Package paging decides what leaves a device's memory when a step needs more
// than there is, and computes what that costs. It is pure: it moves no bytes
// and knows no kind of device.
//
// A [Trace] lists the launches of one step on one device, in the order of
// their submission, with the objects that each uses. Steps repeat. Memory is
// decided in that order alone, never by what has ended, so everything computed
// here repeats exactly: the peak, the floor, and the bytes moved.
//
// [Replay] runs the trace as a device does (memory.go). [Take] picks what leaves:
// the objects whose memory is then free for the most launches per byte that moves.
// [Ahead] decides how early to load what a launch will read. Package residency
// uses both, and [Order], so that a run moves what its replay says.
//
// The types to know are [Trace], [Object], [Launch], [Use] and [Result].
package paging
