// Package device is the contract between the runtime and the devices that
// compute: the interfaces that a kind of device implements, and the registry
// that finds it. No kind imports another, and a new kind touches no op.
//
// Everything that takes time is asynchronous: it is queued on a [Stream], and
// an [Event] tells when it is done and whether it failed. Memory is a [Buffer],
// a handle that never turns into a Go slice outside its device's package. Work
// is an [Executable], compiled once per graph signature.
//
// The types to know are [Device], [Stream], [Buffer], [Event] and [Executable].
package device
