// Package device is the contract between the runtime and the devices that
// compute: the interfaces that a kind of device implements, and the registry
// that finds it. No kind imports another, and a new kind touches no op.
//
// Everything that takes time is asynchronous: it is queued on a [Stream], and
// an [Event] tells when it is done and whether it failed. Memory is a [Buffer],
// a handle that never turns into a Go slice outside its device's package. Work
// is an [Executable], compiled once per graph signature.
//
// Device memory is taken and given back in the order of submission, while work
// is queued: [Stream.Alloc] is for work that comes after, [Buffer.Free] names the
// last uses, and whoever takes the memory next waits for them in its queue. So
// what is in memory at once does not depend on time.
//
// The types to know are [Device], [Stream], [Buffer], [Event] and [Executable].
package device
