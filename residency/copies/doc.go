// Package copies copies tensors to a device, from it, or between devices. A copy that fails
// is repeated, and whoever waits for it goes on only then. So nobody uses the memory that it
// fills, nor overwrites its source, before it has ended well.
//
// The types to know are [Queue] and [Origin]. A Queue is a device.Queue: its events are those of
// copies that are repeated. An Origin is the events by which contents came about, and so tells
// whether they are right.
//
// # Why does a copy wait for the end of its source, and not for its success?
//
// A queue that waits for success fails with what it waits for, and everything behind it too. Copy queues
// carry the tensors of a whole training, so one failed task would spoil the copies of all. A copy therefore
// only waits until its source has ended, and carries along whatever is there. The events by which contents
// came about (the task that wrote them, each copy since) go along as causes. A task that reads them waits
// for the success of every cause, and so does a reader on the host. Only what depends on a failure fails,
// and after one the bytes from before it can be salvaged, also if they have left the device since.
//
// # Why is a failed copy repeated by whoever waits for it?
//
// The memory of a spilled tensor is given to the next taker in the order of submission, before the copy has
// begun. If the copy fails, the taker must not overwrite the contents. The taker could wait for success:
// then all that is queued behind it is skipped, the step fails, perhaps in the middle of an update, and the
// memory must be taken back from those who have it by then. Or the memory could be held back until the host
// knows how the copy ended: then the host waits at every spill, and what is in memory depends on time.
//
// `residency/copies` repeats the copy instead. Its events end only when the copy has ended well, or has
// failed for good. Whoever waits for such an event (the taker's queue, a task, the host) finds the failure
// when its turn comes, opens a stream, queues the copy again and goes on waiting. Until then nothing that
// depends on the copy has run, so source and target are as they were, and the failure has cost the time of
// a copy. A copy that ends well costs nothing more than before: no wait, no allocation, no look by anybody
// else.
//
// The same holds for copies to devices and between them, for pull-backs and for saves. So no copy that
// fails once fails a step or a save. The device keeps the buffers of a failed copy until its stream is
// closed (`device.Stream.Repeat`), because a spilled tensor's buffer was freed when the copy was queued.
// Repeated copies go to a stream of their own: on the stream of new copies, one could wait behind a copy
// that waits for it. Three failures in a row, or the loss of the device, are a failure for good: what was
// to be copied is lost, and the error names the tensors.
package copies
