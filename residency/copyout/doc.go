// Package copyout copies tensors from a device to host memory. A copy that fails is
// repeated, and whoever waits for it goes on only then. So nobody overwrites its source
// before it has ended well, and its contents are not lost while the device answers.
//
// The one type is [Queue]. It is a device.Queue: its events are those of copies that are
// repeated.
package copyout
