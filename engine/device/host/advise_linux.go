package host

import "golang.org/x/sys/unix"

// adviseHuge asks for huge pages, which spare address translations in large
// products. It is only a wish: a kernel without them refuses.
func adviseHuge(mem []byte) { _ = unix.Madvise(mem, unix.MADV_HUGEPAGE) }
