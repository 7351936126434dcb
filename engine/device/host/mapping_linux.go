package host

import "golang.org/x/sys/unix"

// noReserve maps address space without setting swap aside for it.
const noReserve = unix.MAP_NORESERVE

// discard gives whole pages back. They read as zeros when next touched.
func discard(pages []byte) error { return unix.Madvise(pages, unix.MADV_DONTNEED) }

// adviseHuge asks for huge pages: large products then translate fewer addresses.
// A system without huge pages refuses, which does no harm.
func adviseHuge(mem []byte) { _ = unix.Madvise(mem, unix.MADV_HUGEPAGE) }
