package work

import (
	"sync"
	"unsafe"
)

// RegisterElems is the elements of [Registers], which are together 32 KiB.
const RegisterElems = 8192

// Registers is a thread's memory for values that do not leave a chunk.
type Registers struct {
	All  []float32
	next *Registers
}

// idleRegisters are those that no chunk uses. As many exist as threads ever used at the
// same time, and they stay.
var idleRegisters struct {
	sync.Mutex
	free *Registers
}

// TakeRegisters returns some for the caller alone, until it calls GiveBack.
func TakeRegisters() *Registers {
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

// GiveBack ends the caller's use.
func (r *Registers) GiveBack() {
	f := &idleRegisters
	f.Lock()
	r.next, f.free = f.free, r
	f.Unlock()
}

// newRegisters aligns them to a cache line.
func newRegisters() *Registers {
	const line = 16
	all := make([]float32, RegisterElems+line)
	for uintptr(unsafe.Pointer(&all[0]))%(line*4) != 0 {
		all = all[1:]
	}
	return &Registers{All: all[:RegisterElems:RegisterElems]}
}

// Doubles are the registers' memory as float64.
func (r *Registers) Doubles() []float64 {
	return unsafe.Slice((*float64)(unsafe.Pointer(&r.All[0])), len(r.All)/2)
}

// Fill writes one number everywhere.
func Fill(y []float32, v float32) {
	for i := range y {
		y[i] = v
	}
}
