//go:build !amd64

package isa

const (
	best     = Generic
	pairsPay = false
)
