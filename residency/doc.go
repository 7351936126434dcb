// Package residency knows where every tensor lives, and it alone moves bytes
// between the host and devices, or between devices.
//
// A [Tensor] is a record: key, metadata, usage, and where its contents are. It
// has one truth (the host, one device, or a store it streams from) and any
// number of clean copies, told apart by version. A task leases all it needs at
// once with [Tenant.Acquire]; missing copies are queued on the tenant's own
// copy streams, and the task's stream is made to wait for them, while the host
// goes on. [Manager.Release] records what the task wrote: the truth moves to the
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
// Begin with manager.go and tensor.go, then read acquire.go: a call of Acquire, step by step.
//
//   - manager, tenant: who owns what, from the opening to the end.
//   - suspend: a tenant that gives its floors up for a while.
//   - base: tensors that several tenants read and nobody writes.
//   - device: the copies on one device, its memory, and the copy streams that a tenant has there.
//   - tensor: the record of a tensor, and of its copy on one device.
//   - acquire: a lease, from the call to the wait of the task's stream. acquire_supply gives
//     the tensors memory and contents; acquire_now is the short way of a task that finds all there.
//   - lease: what a task asks for, what it gets, and how it ends.
//   - wait: how a call waits for its turn or for a store, without the lock.
//   - prefetch: contents that come before the task that reads them.
//   - uses: the known order of a step's launches.
//   - evict: which copies leave a full device, and how.
//   - copy: the copies themselves, to devices and to the host.
//   - host: the bytes on the host, and what a user reads and writes there. host_staging keeps
//     memory for saves, host_salvage reads contents after a failure.
//   - store: contents that stream from files.
//   - measure: who has how much memory, for readers who must not hold up a task.
//   - seal: the strict mode, in which only announced bytes move.
//
// What stands alone is a package below: hostmem has the host's memory, copies repeats
// failed copies and knows how contents came about, admission has those who wait, and ledger the counts.
//
// # Why are tensors moved within a device?
//
// Free memory is in pieces. Evicting until one piece is large enough moved 1.3 to 1.9 times the bound, and
// no plan could know the bytes. So victims are chosen by the sums alone, and if the pieces are too small,
// buffers move within the device, on a stream of their own. A step then moves exactly the bytes that its
// plan says, and runs at its floor. Two ways are compared: buffers slide together, or those in a range of
// the size that is asked for go to other pieces. The second moves few bytes, but needs pieces that fit.
// With no byte to spare they seldom do: at half of its memory, gpt-small slid 1.6 GB a step, six times the
// bytes that left and came back. So a step that must move anything keeps a 64th of the memory free. That
// moves 4 % more in and out, and 0.15 GB within. Finding the owners of buffers looks at all copies, but
// seldom: it takes 1 ms of a step's 143 launches there.
//
// # Why is a training a tenant of one residency manager?
//
// Trainings on the same devices need one manager, since one of them alone knows whose tensors can leave.
// Everything else is each tenant's own: names, order of uses, seal, ledger and copy streams. With common
// copy streams, a checkpoint would wait behind the slow task of another training, and fail with it. Victims
// are chosen among all tensors. A use of another tenant counts as further away with every task that others
// have queued since that tenant's last one, so what nobody uses leaves first.
//
// A training that begins reserves its floors, the memory of its largest launch on each device. Together
// they never exceed a device, so that each training always has room for its next launch, however the others
// go on. Those whose floors do not fit together take turns, and what stays for good is let in beside any one of them: package
// admission says how. Reserving peaks would be simpler, and two trainings would seldom run at the same time.
//
// # Why do tensors that several tenants read have an owner of their own?
//
// The weights beside which several trainings have adapters outlive each of these. Were they the first tenant's, they would have
// to change hands when it closes, with copies under way on its streams. So a base has one more tenant as its owner, with
// streams that none of its users closes.
//
// Which copy leaves a full device follows from one order of uses, and a base has an order for each user. So it is not
// chosen at all while a user is at work: its bytes are a floor that the users reserve together, and every launch has room beside
// it. Paging a base in turn for several users would move it several times a step. A tenant whose plan needs that has weights of its
// own.
//
// # Why does a launch that cannot begin keep its turn?
//
// Launches of several trainings lease tensors and memory from several goroutines. A launch that needs most
// of a device, or writes a tensor that many read, finds some other lease in its way at almost any moment.
// If each tried again whenever a lease ended, the small ones would go first forever. So the calls that wait
// form a line. A later one waits behind an earlier one if they have a device or a tensor in common, even if
// it could begin at once; all others pass. A call whose stream has a lease goes first: the line may wait
// for that lease.
//
// # Why is a shared device not lost with one failed operation?
//
// A training that has devices to itself gives a device up with its first failure. On shared devices the
// failure may be the training's own, such as a launch of its model, so the others stay. The device is given
// up for all only if it says that it is lost, or hangs. A training opens streams only on the devices that
// its plan uses. So the loss of another device reaches it in no call, not even in that of closing streams.
package residency
