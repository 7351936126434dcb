package host

import (
	"testing"
	"unsafe"

	"pgregory.net/rapid"
)

// TestArenaRandom takes and gives blocks in random order: they are aligned, do
// not overlap, keep their contents, and whatever the budget allows is found.
func TestArenaRandom(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		const budget = 1 << 16
		a, err := newArena(budget, true)
		if err != nil {
			rt.Fatal(err)
		}
		type owned struct {
			off, size int64
			fill      byte
		}
		var blocks []owned
		used := int64(0)
		for i := range rapid.IntRange(1, 200).Draw(rt, "operations") {
			size := rapid.SampledFrom([]int64{0, 1, 64, 100, 1000, 4096, 5000, 20000, 60000}).Draw(rt, "size")
			if rounded := roundUp(size, alignment); used+rounded <= budget && rapid.Bool().Draw(rt, "take") {
				off, ok := a.take(size)
				if !ok {
					rt.Fatalf("no block of %d bytes with %d of %d used", size, used, budget)
				}
				if off%alignment != 0 {
					rt.Fatalf("block at %d", off)
				}
				for _, b := range blocks {
					if size > 0 && off < b.off+b.size && b.off < off+size {
						rt.Fatalf("block [%d,%d) overlaps [%d,%d)", off, off+size, b.off, b.off+b.size)
					}
				}
				b := owned{off, size, byte(i + 1)}
				for j := range a.bytes(off, size) {
					a.mem[off+int64(j)] = b.fill
				}
				blocks, used = append(blocks, b), used+rounded
			} else if len(blocks) > 0 {
				j := rapid.IntRange(0, len(blocks)-1).Draw(rt, "which")
				b := blocks[j]
				for _, v := range a.bytes(b.off, b.size) {
					if v != b.fill {
						rt.Fatalf("block of %d bytes holds %d, expected %d", b.size, v, b.fill)
					}
				}
				a.give(b.off, b.size)
				blocks, used = append(blocks[:j], blocks[j+1:]...), used-roundUp(b.size, alignment)
			}
			if a.taken > budget {
				rt.Fatalf("%d bytes are held, over the budget of %d", a.taken, budget)
			}
		}
		for _, b := range blocks {
			a.give(b.off, b.size)
		}
		a.flush()
		if a.taken != 0 || len(a.free) != 1 || a.free[0] != (block{0, budget * mostSpread}) {
			rt.Fatalf("at the end %d bytes are held and %v is free", a.taken, a.free)
		}
		if err := a.close(); err != nil {
			rt.Fatal(err)
		}
	})
}

func TestArenaSteadyState(t *testing.T) {
	a, err := newArena(1<<20, true)
	if err != nil {
		t.Fatal(err)
	}
	first, _ := a.take(5000)
	a.give(first, 5000)
	if n := testing.AllocsPerRun(100, func() {
		off, _ := a.take(5000)
		if off != first {
			t.Fatalf("block at %d, expected the cached one at %d", off, first)
		}
		a.give(off, 5000)
	}); n != 0 {
		t.Errorf("a cached block costs %v allocations", n)
	}
	if at := uintptr(unsafe.Pointer(&a.mem[0])); at%alignment != 0 {
		t.Errorf("the arena is at %#x", at)
	}
	if err := a.close(); err != nil {
		t.Fatal(err)
	}
}
