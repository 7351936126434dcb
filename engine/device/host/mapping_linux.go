package host

import "golang.org/x/sys/unix"

// noReserve maps address space without setting swap aside for it.
const noReserve = unix.MAP_NORESERVE

// adviseHuge asks for huge pages: large products then translate fewer addresses.
// A system without huge pages refuses, which does no harm.
func adviseHuge(mem []byte) { _ = unix.Madvise(mem, unix.MADV_HUGEPAGE) }
