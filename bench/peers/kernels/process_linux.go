package main

import "syscall"

// dieWithParent ends a side when the thread that started it ends, even while it is stopped. That is the main
// thread: see main.
func dieWithParent() *syscall.SysProcAttr { return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} }
