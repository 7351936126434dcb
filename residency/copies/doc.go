// Package copies copies tensors to a device, from it, or between devices. A copy that fails
// is repeated, and whoever waits for it goes on only then. So nobody uses the memory that it
// fills, nor overwrites its source, before it has ended well.
//
// The one type is [Queue]. It is a device.Queue: its events are those of copies that are
// repeated.
package copies
