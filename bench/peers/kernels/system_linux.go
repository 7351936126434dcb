package main

import (
	"syscall"

	"golang.org/x/sys/unix"
)

// dieWithParent ends a side when the thread that started it ends, even while it is stopped. That is the main
// thread: see main.
func dieWithParent() *syscall.SysProcAttr { return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} }

// adviseHuge asks for huge pages. A system without them refuses, which does no harm.
func adviseHuge(b []byte) { _ = unix.Madvise(b, unix.MADV_HUGEPAGE) }
