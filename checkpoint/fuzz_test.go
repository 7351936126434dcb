package checkpoint

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
)

// FuzzFile changes a good file: a patch at one place, a copy of one part over
// another, and a cut. Whatever comes of it, there are the bits that were saved or a
// clear error: no panic, no hang, and nothing silently wrong.
func FuzzFile(f *testing.F) {
	whole := victim(f)
	end := uint32(len(whole))
	f.Add(uint32(0), []byte{}, uint32(0), uint32(0), uint32(0), end)
	f.Add(uint32(16), []byte{0}, uint32(0), uint32(0), uint32(0), end)                          // the magic number
	f.Add(uint32(64), []byte{1, 2, 3}, uint32(0), uint32(0), uint32(0), end)                    // a transaction's number
	f.Add(uint32(0), []byte{}, uint32(4096), uint32(8192), uint32(4096), end)                   // a page over another
	f.Add(uint32(0), []byte{}, uint32(0), uint32(0), uint32(0), end/2)                          // half of it
	f.Add(uint32(3*4096+8), []byte{2, 0, 255, 255}, uint32(0), uint32(0), uint32(0), end)       // a page's flags and count
	f.Add(uint32(5*4096+16), bytes.Repeat([]byte{9}, 40), uint32(0), uint32(0), uint32(0), end) // its elements
	f.Fuzz(func(t *testing.T, at uint32, patch []byte, from, to, count, size uint32) {
		b := bytes.Clone(whole)
		within := func(n uint32) int { return int(n % uint32(len(b))) }
		copy(b[within(at):], patch)
		src := b[within(from):]
		copy(b[within(to):], bytes.Clone(src[:min(int(count%8192), len(src))]))
		if size < end {
			b = b[:size]
		}
		path := filepath.Join(t.TempDir(), "c.db")
		if err := os.WriteFile(path, b, 0o644); err != nil {
			t.Fatal(err)
		}
		if err := timed(path); err != nil {
			t.Fatal(err)
		}
	})
}
