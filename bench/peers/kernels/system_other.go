//go:build !linux

package main

import "syscall"

// dieWithParent has no means here: a side that is stopped outlives a killed parent.
func dieWithParent() *syscall.SysProcAttr { return nil }

// adviseHuge asks for huge pages, which only Linux gives on request.
func adviseHuge([]byte) {}
