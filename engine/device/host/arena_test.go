package host

import (
	"testing"
	"unsafe"

	"pgregory.net/rapid"

	"github.com/berth-ml/berth/engine/device"
)

// TestArenaBacks touches ranges near both ends of an arena once they are backed:
// pages between them need not be.
func TestArenaBacks(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		const budget = 1 << 20
		a, err := newArena(budget)
		if err != nil {
			rt.Fatal(err)
		}
		if len(a.mem) != budget {
			rt.Fatalf("%d bytes in a mapping of %d", budget, len(a.mem))
		}
		if at := uintptr(unsafe.Pointer(&a.mem[0])); at%device.MemoryUnit != 0 {
			rt.Errorf("the arena is at %#x", at)
		}
		for range rapid.IntRange(1, 20).Draw(rt, "ranges") {
			size := rapid.Int64Range(0, budget).Draw(rt, "size")
			off := rapid.Int64Range(0, budget-size).Draw(rt, "offset")
			if !a.Back(off, size) || size > 0 && off+size > a.low && off < a.high {
				rt.Fatalf("[%d,%d) is not backed: only [0,%d) and [%d,%d) are", off, off+size, a.low, a.high, budget)
			}
			for i := range a.Bytes(off, size) {
				a.mem[off+int64(i)]++
			}
		}
		if err := a.Close(); err != nil {
			rt.Fatal(err)
		}
	})
}
