// Package device is the contract between the runtime and what computes: the
// interfaces a kind of device implements, and the registry through which it is
// found. No kind imports another, and adding one touches no op.
//
// Everything that takes time is asynchronous: it is queued on a [Stream], and
// an [Event] tells when it is done and whether it failed. Memory is a [Buffer],
// a handle that never turns into a Go slice outside its device's package. Work
// is an [Executable], compiled once per graph signature.
//
// The types to know are [Device], [Stream], [Buffer], [Event] and [Executable].
package device
