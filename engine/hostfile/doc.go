// Package hostfile is host memory in a file, for contents that the memory of the
// process has no room for. The file has no name, so that nothing of it is left
// when the process ends, however it ends. Its room on the disk is taken before it
// is used: a disk that fills up later does no harm.
//
//	f, err := hostfile.Create("runs/digits", 1<<30)
//	…
//	defer f.Close()
//	b, err := f.Alloc(4096)
//
// A [Buffer] is a device.PagedBuffer: devices copy from and to it, and the system
// moves its pages to the disk and back. Systems other than Unix have no such
// files.
//
// The types to know are [File] and [Buffer].
package hostfile
