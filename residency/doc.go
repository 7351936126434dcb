// Package residency knows where every tensor lives, and it alone moves bytes
// between the host and devices, or between devices.
//
// A [Tensor] is a record: key, metadata, usage, and where its contents are. It
// has one truth (the host, one device, or a store it streams from) and any
// number of clean copies, told apart by version. A task leases all it needs at
// once with [Tenant.Acquire]; missing copies are queued on the tenant's own
// copy streams, and the task's stream is made to wait for them, while the host
// goes on. [Manager.Release] notes what the task wrote: the truth moves to the
// task's device and all other copies are stale. Nothing comes back to the host except
// by [Manager.PullBack], which has a [Reason], and by spilling when a device is
// over its budget. The [Ledger] counts every byte.
//
// A copy has device memory while it is current or leased. When it is dropped or
// becomes stale, its memory is free at once, in the order of submission: the
// stream of the next taker waits for the last uses. What is in memory, and what
// moves, therefore depends on the order of calls and not on time. The memory of a
// device is the one limit. A task whose tensors and scratch fit in it always runs.
//
// Several users share the devices of one [Manager], each through a [Tenant] with
// tensors, copy streams, a ledger and a seal of its own. [Manager.Join] reserves the
// memory without which a tenant's largest task cannot run. [Open] is for a user that
// has the devices to itself.
//
// The types to know are [Manager], [Tenant], [Tensor], [Need], [Lease] and [Ledger].
//
// One goroutine at a time acquires on a given stream, and it releases a lease
// before it acquires the next one. Everything else may be called from any
// goroutine. Nothing waits on the host with the manager's lock held.
package residency
