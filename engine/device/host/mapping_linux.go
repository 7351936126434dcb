package host

import "golang.org/x/sys/unix"

const noReserve = unix.MAP_NORESERVE

// discard gives whole pages back. They read as zeros when next touched.
func discard(pages []byte) error { return unix.Madvise(pages, unix.MADV_DONTNEED) }

// adviseHuge asks for huge pages, which spare address translations in large
// products. It is only a wish: a kernel without them refuses.
func adviseHuge(mem []byte) { _ = unix.Madvise(mem, unix.MADV_HUGEPAGE) }
