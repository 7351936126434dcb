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
// by [Manager.PullBack], which has a [ledger.Reason], and by spilling when a device is
// over its budget. The [ledger.Ledger] counts every byte.
//
// A copy has device memory while it is current or leased. When it is dropped or
// becomes stale, its memory is free at once, in the order of submission: the
// stream of the next taker waits for the last uses. What is in memory, and what
// moves, therefore depends on the order of calls and not on time. The memory of a
// device is the one limit. A task whose tensors and scratch fit in it always runs.
//
// A copy that fails is repeated before anything depends on it: see package copies. A
// failure for good is that of the tasks and readers that need the contents.
//
// Several users share the devices of one [Manager], each through a [Tenant] with
// tensors, copy streams, a ledger and a seal of its own. [Manager.Join] reserves the
// memory without which a tenant's largest task cannot run. [Open] is for a user that
// has the devices to itself.
//
// The types to know are [Manager], [Tenant], [Tensor], [Need] and [Lease].
//
// One goroutine at a time acquires on a given stream, and it releases a lease
// before it acquires the next one. Everything else may be called from any
// goroutine. Nothing waits on the host with the manager's lock held.
//
// # Reading the code
//
// The names of files begin with their subject:
//
//   - tensor: the record of a tensor, and of its copy on one device.
//   - tenant, manager: who owns what. A tenant's account is the part that its tensors
//     refer to, with its copy streams on each device.
//   - device: the copies on one device, and its memory.
//   - acquire, release: a lease from the call to its end. acquire.go has the steps in
//     their order; each of them has a file: room, supply, ahead, follow.
//   - uses: the known order of a step's launches.
//   - evict: which copies leave a full device, and how. evict.go is the whole path.
//   - copy: the copies themselves. copy_in.go queues those to devices, copy_out.go
//     those to the host.
//   - host: the bytes on the host, and what a user reads and writes there.
//   - store: contents that stream from files.
//   - seal: the strict mode, in which only announced bytes move.
//
// What stands alone is a package below: hostmem has the host's memory, copies repeats
// failed copies, admission has those who wait, and ledger the counts.
package residency
