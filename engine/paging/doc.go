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
// A [Plan] says when these leave and come back (plan.go). Package residency
// uses both, and [Order], so that a run moves what its replay says.
//
// The types to know are [Trace], [Object], [Launch], [Use] and [Result].
//
// # Why does the furthest use alone not decide what leaves?
//
// A copy that the host has too costs one copy to bring back, one that only the device has costs two. So a
// tensor leaves whose memory is then free for the most launches per copy: a clean one that the next launch
// reads stays, a dirty one that the last launch reads goes. A tensor that is overwritten before it is read
// costs no load, one that ends with its launch costs nothing. The best victims may be small and the last
// one large; those that it makes unnecessary stay.
//
// A copy out is made once for all the gaps until the next write. A weight is read by each microbatch and
// written by the update: once out, it leaves again for one copy. So a copy out that serves at least four
// gaps is not counted. A gradient's sum, which each microbatch writes, left before the weight otherwise,
// and a third more moved.
//
// How good that is was measured once against a min-cost flow of the bytes over the gaps between their uses,
// which no choice beats. On the recorded steps of gpt-small, at 50% and 35% of the memory, 1.04 and 1.10
// times that bound moved, and in none of all 1.25 times. The solver was longer than what it judged, and
// went; a golden file now keeps the bytes of each recorded step from growing.
//
// # Why is when an object moves planned apart from what moves?
//
// On demand, an object leaves when others need its room, and comes back when it is read: launches wait for both
// copies. Loading everything a launch or more ahead needs room for it, which others leave: up to 5% more moved, or it did not pay.
// But whatever leaves is of no use between its last use and its departure. A step replayed on demand shows how much memory is idle
// so, and for how long. With that, an object leaves after its last use, and comes back as early as the idle memory allows, and
// not a byte more moves. On gpt-small at 25% of the memory, 97 of 143 launches waited for a load, and 20 do.
//
// No speeds are asked for. A copy that could begin gains nothing by beginning later, and objects take turns: none
// comes two launches early before all others that can have come one early.
//
// A device keeps its copies in queues by their next use, so that a choice takes hardly longer with more
// copies. Only a device's own policy looks at a list of all copies.
package paging
