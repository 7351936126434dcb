package kernels

import (
	"sync"
	"unsafe"
)

// registers is the memory of a thread's tile program.
type registers struct {
	all  []float32
	next *registers
}

// idleRegisters are those that nobody uses, as with workspaces.
var idleRegisters struct {
	sync.Mutex
	free *registers
}

// takeRegisters returns some for the caller alone, until it calls giveBack.
func takeRegisters() *registers {
	f := &idleRegisters
	f.Lock()
	r := f.free
	if r != nil {
		f.free = r.next
	}
	f.Unlock()
	if r == nil {
		r = newRegisters()
	}
	return r
}

func (r *registers) giveBack() {
	f := &idleRegisters
	f.Lock()
	r.next, f.free = f.free, r
	f.Unlock()
}

// newRegisters aligns them to a cache line.
func newRegisters() *registers {
	const line = 16
	all := make([]float32, registerElems+line)
	for uintptr(unsafe.Pointer(&all[0]))%(line*4) != 0 {
		all = all[1:]
	}
	return &registers{all: all[:registerElems:registerElems]}
}
