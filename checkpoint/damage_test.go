package checkpoint

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/berth-ml/berth/internal/testall"
)

// victim makes a file with everything in it: shared and deleted chunks, free
// pages, large and small buckets. It holds checkpoints 2, 4, 5 of the same steps.
func victim(t testing.TB) []byte {
	t.Helper()
	path := filepath.Join(t.TempDir(), "victim.db")
	db := open(t, path, small)
	for step := 1; step <= 5; step++ {
		save(t, db, step)
	}
	if err := db.Delete(1, 3); err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	im, err := openImage(bytes.NewReader(b), int64(len(b)))
	if err != nil {
		t.Fatal(err)
	}
	return b[:im.high*uint64(im.page)] // what bbolt allocated ahead is of no interest
}

// clear reports whether an error is one a user can act on.
func clear(err error) bool {
	return errors.Is(err, ErrDamaged) || errors.Is(err, ErrFormat) || errors.Is(err, ErrNotFound)
}

// probe opens a damaged file both ways and uses all of it, and salvages it. Every checkpoint
// gives the bits that were saved or a clear error, and when nothing is
// reported, nothing is missing.
func probe(path string) error {
	db, err := Open(path, OpenOptions{ReadOnly: true})
	if err == nil {
		err = probeReads(db)
		db.Close()
	} else if clear(err) {
		err = nil
	}
	if err != nil {
		return fmt.Errorf("read-only: %w", err)
	}
	if err := probeSalvage(path); err != nil {
		return fmt.Errorf("salvage: %w", err)
	}
	if db, err = Open(path, small); err != nil {
		if clear(err) {
			return nil
		}
		return fmt.Errorf("writing: open: %w", err)
	}
	defer db.Close()
	if err := probeWrites(db); err != nil {
		return fmt.Errorf("writing: %w", err)
	}
	return nil
}

func probeReads(db *DB) error {
	ms, skipped, err := db.List()
	if err != nil {
		if clear(err) {
			return nil
		}
		return err
	}
	if len(ms) < 3 && len(skipped) == 0 {
		return fmt.Errorf("%d checkpoints are listed and nothing is said of the rest", len(ms))
	}
	for _, id := range []uint64{2, 4, 5} {
		s, err := db.Load(id)
		if err == nil {
			err = same(s, int(id))
		}
		if err != nil && !clear(err) {
			return fmt.Errorf("checkpoint %d: %w", id, err)
		}
	}
	s, skipped, err := db.Latest(ctxForever)
	if err != nil {
		if clear(err) {
			return nil
		}
		return err
	}
	if s.Manifest.ID != 5 && len(skipped) == 0 {
		return fmt.Errorf("Latest is %d and nothing is said of 5", s.Manifest.ID)
	}
	return same(s, s.Manifest.Step)
}

// probeSalvage wants nothing but what was saved in what is salvaged, and all of
// it where nothing is reported.
func probeSalvage(path string) error {
	out := path + ".out"
	defer os.Remove(out)
	said := 0
	n, err := Salvage(ctxForever, path, out, func(Skipped) { said++ })
	if err != nil {
		if clear(err) {
			return nil
		}
		return err
	}
	if n < 3 && said == 0 {
		return fmt.Errorf("%d checkpoints are found and nothing is said of the rest", n)
	}
	db, err := Open(out, OpenOptions{ReadOnly: true})
	if err != nil {
		return err
	}
	defer db.Close()
	ms, skipped, err := db.List()
	if err != nil || len(skipped) > 0 || len(ms) != n {
		return fmt.Errorf("%d of %d are in the new file, %v, %v", len(ms), n, skipped, err)
	}
	for _, m := range ms {
		s, err := db.Load(m.ID)
		if err == nil {
			err = same(s, m.Step)
		}
		if err != nil {
			return fmt.Errorf("checkpoint %d: %w", m.ID, err)
		}
	}
	return nil
}

func probeWrites(db *DB) error {
	m, src := at(6)
	id, err := db.Save(ctxForever, m, src)
	if err != nil {
		if clear(err) {
			return nil
		}
		return err
	}
	s, err := db.Load(id)
	if err == nil {
		err = same(s, 6)
	}
	if err != nil {
		return fmt.Errorf("what was just saved: %w", err)
	}
	if _, _, err := db.Prune(ctxForever, Keep{Last: 2}); err != nil && !clear(err) {
		return err
	}
	if s, _, err = db.Latest(ctxForever); err != nil {
		return fmt.Errorf("after pruning: %w", err)
	}
	if s.Manifest.ID != id {
		return fmt.Errorf("after pruning Latest is %d, not %d", s.Manifest.ID, id)
	}
	return same(s, 6)
}

// timed fails a probe that panics or hangs.
func timed(path string) (err error) {
	done := make(chan error, 1)
	go func() {
		defer func() {
			if p := recover(); p != nil {
				done <- fmt.Errorf("panic: %v", p)
			}
		}()
		done <- probe(path)
	}()
	select {
	case err := <-done:
		return err
	case <-time.After(30 * time.Second):
		return errors.New("hangs")
	}
}

// TestDamage flips, cuts, overwrites and swaps at random, with the same
// weight for pages that hold structure as for those that hold contents.
func TestDamage(t *testing.T) {
	t.Parallel()
	whole := victim(t)
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	path := filepath.Join(t.TempDir(), "damaged.db")
	tree := structure(t, whole)
	for i := range testall.Or(90, 500) {
		b := bytes.Clone(whole)
		what := hurt(r, tree, &b)
		if err := os.WriteFile(path, b, 0o644); err != nil {
			t.Fatal(err)
		}
		if err := timed(path); err != nil {
			t.Fatalf("round %d: %s: %v", i, what, err)
		}
	}
}

// structure lists the places in the file where bbolt's own numbers and keys are.
func structure(t *testing.T, b []byte) []int {
	im, err := openImage(bytes.NewReader(b), int64(len(b)))
	if err != nil {
		t.Fatal(err)
	}
	var at []int
	for id := uint64(0); id < im.high; id++ {
		if n, err := im.load(id); err == nil || id < 2 {
			end := 80
			if err == nil {
				end = int(min(n.start()+64, n.bytes))
				if n.overflow == 0 {
					end = int(n.bytes) // records too
				}
			}
			for k := range end {
				at = append(at, int(int64(id)*im.page)+k)
			}
		}
	}
	return at
}

func hurt(r *rand.Rand, tree []int, b *[]byte) string {
	pos := r.IntN(len(*b))
	if r.IntN(3) > 0 {
		pos = tree[r.IntN(len(tree))]
	}
	switch r.IntN(12) {
	case 0:
		*b = (*b)[:pos]
		return fmt.Sprintf("cut to %d bytes", pos)
	case 1:
		n := min(r.IntN(6000), len(*b)-pos)
		for i := range n {
			(*b)[pos+i] = byte(r.Uint32())
		}
		return fmt.Sprintf("%d random bytes at %d", n, pos)
	case 2:
		n := min(4096*(1+r.IntN(3)), len(*b)-pos)
		clear := (*b)[pos : pos+n]
		for i := range clear {
			clear[i] = 0
		}
		return fmt.Sprintf("%d zeros at %d", n, pos)
	case 3:
		x, y := r.IntN(len(*b)/4096)*4096, r.IntN(len(*b)/4096)*4096
		tmp := bytes.Clone((*b)[x : x+4096])
		copy((*b)[x:x+4096], (*b)[y:y+4096])
		copy((*b)[y:y+4096], tmp)
		return fmt.Sprintf("pages at %d and %d swapped", x, y)
	case 4, 5, 6:
		(*b)[pos] = byte(r.Uint32())
		return fmt.Sprintf("byte %d random", pos)
	}
	bit := byte(1) << r.IntN(8)
	(*b)[pos] ^= bit
	return fmt.Sprintf("bit %#x of byte %d flipped", bit, pos)
}

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
