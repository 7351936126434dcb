package checkpoint

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.etcd.io/bbolt"

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

// Every single byte of every record matters.
func TestDamagedRecords(t *testing.T) {
	b := victim(t)
	im, err := openImage(bytes.NewReader(b), int64(len(b)))
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range [][2][]byte{{bucketBerth, keyFormat}, {bucketBerth, keyHead}, {bucketManifests, idKey(5)}, {bucketTensors, idKey(5)}} {
		it, ok, err := im.lookup(path[0], path[1])
		if err != nil || !ok {
			t.Fatal(ok, err)
		}
		for i := it.at; i < it.at+it.size; i++ {
			b[i] ^= 1 << (i % 8)
			if _, err := im.record(path[0], path[1]); !errors.Is(err, ErrDamaged) {
				t.Fatalf("record %s/%x with byte %d changed: %v", path[0], path[1], i-it.at, err)
			}
			b[i] ^= 1 << (i % 8)
		}
	}
}

// A checkpoint that vanished without a trace is missed: the head names it.
func TestLostCheckpoint(t *testing.T) {
	path := filepath.Join(t.TempDir(), "c.db")
	db := open(t, path, small)
	save(t, db, 1)
	save(t, db, 2)
	if err := db.update(func(tx *bbolt.Tx) error { return tx.Bucket(bucketManifests).Delete(idKey(2)) }); err != nil {
		t.Fatal(err)
	}
	db.Close()
	db = open(t, path, small)
	s, skipped, err := db.Latest(t.Context())
	if err != nil || s.Manifest.ID != 1 || len(skipped) != 1 || skipped[0].ID != 2 {
		t.Fatalf("Latest: %+v %v %v", s, skipped, err)
	}
	if len(db.chunks) < 12 {
		t.Errorf("%d chunks: those of the lost checkpoint were deleted", len(db.chunks))
	}
}

// A chunk damaged on the disk is not shared with new checkpoints: it is
// written again, which heals the old ones too.
func TestDamagedChunkIsReplaced(t *testing.T) {
	path := filepath.Join(t.TempDir(), "c.db")
	db := open(t, path, small)
	save(t, db, 1)
	_, src := at(1)
	db.Close()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	i := bytes.Index(b, src.data["frozen"][:64])
	if i < 0 {
		t.Fatal("the contents are not in the file")
	}
	b[i] ^= 1
	if err := os.WriteFile(path, b, 0o644); err != nil {
		t.Fatal(err)
	}
	db = open(t, path, small)
	_, skipped, err := db.Latest(t.Context())
	if !errors.Is(err, ErrNotFound) || len(skipped) != 1 || !errors.Is(skipped[0].Err, ErrDamaged) {
		t.Fatalf("Latest of a damaged file: %v %v", skipped, err)
	}
	if msg := skipped[0].String(); !containsAll(msg, path, "checkpoint 1", `tensor "frozen"`, "chunk 0 of 3") {
		t.Errorf("the message lacks something: %s", msg)
	}
	save(t, db, 2)
	if err := db.Verify(t.Context(), 0, nil); err != nil {
		t.Error(err)
	}
}

// The newest checkpoint is damaged: Latest is the one before, and says so;
// Salvage copies that one.
func TestFallBackAndSalvage(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "c.db")
	db := open(t, path, small)
	for step := 1; step <= 3; step++ {
		save(t, db, step)
	}
	_, src := at(3)
	db.Close()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	b[bytes.Index(b, src.data["moving"][4096:4200])+7] ^= 0x80
	if err := os.WriteFile(path, b, 0o644); err != nil {
		t.Fatal(err)
	}
	db = open(t, path, OpenOptions{ReadOnly: true})
	s, skipped, err := db.Latest(t.Context())
	if err != nil || s.Manifest.Step != 2 || len(skipped) != 1 || skipped[0].ID != 3 {
		t.Fatalf("Latest: %+v %v %v", s, skipped, err)
	}
	if err := same(s, 2); err != nil {
		t.Fatal(err)
	}
	if err := db.Verify(t.Context(), 0, nil); !errors.Is(err, ErrDamaged) {
		t.Fatalf("Verify: %v", err)
	}
	out := filepath.Join(dir, "good.db")
	var left []Skipped
	n, err := Salvage(t.Context(), path, out, func(s Skipped) { left = append(left, s) })
	if err != nil || n != 2 || len(left) != 1 || left[0].ID != 3 {
		t.Fatalf("Salvage: %d %v %v", n, left, err)
	}
	good := open(t, out, OpenOptions{ReadOnly: true})
	if err := good.Verify(t.Context(), 0, nil); err != nil {
		t.Fatal(err)
	}
	if _, err := Salvage(t.Context(), path, out, nil); err == nil {
		t.Error("Salvage wrote over a file")
	}
}

// The file is cut while it is open: reads are errors, and a write is one too,
// not a fault in bbolt's mapping.
func TestCutWhileOpen(t *testing.T) {
	path := filepath.Join(t.TempDir(), "c.db")
	db := open(t, path, small)
	save(t, db, 1)
	if err := os.Truncate(path, 8192); err != nil {
		t.Fatal(err)
	}
	if _, _, err := db.Latest(t.Context()); !errors.Is(err, ErrDamaged) {
		t.Errorf("Latest: %v", err)
	}
	m, src := at(2)
	if _, err := db.Save(t.Context(), m, src); !errors.Is(err, ErrDamaged) || !strings.Contains(err.Error(), "to 8192 while it was in use") {
		t.Errorf("Save: %v", err)
	}
	if err := db.Close(); err != nil {
		t.Errorf("Close: %v", err)
	}
	if _, err := Open(path, small); !errors.Is(err, ErrDamaged) {
		t.Errorf("Open: %v", err)
	}
}

func TestForeignFiles(t *testing.T) {
	dir := t.TempDir()
	for name, content := range map[string][]byte{
		"text":  bytes.Repeat([]byte("not a checkpoint\n"), 1000),
		"short": []byte("x"),
	} {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, content, 0o644); err != nil {
			t.Fatal(err)
		}
		for _, ro := range []bool{false, true} {
			if _, err := Open(path, OpenOptions{ReadOnly: ro}); !errors.Is(err, ErrDamaged) {
				t.Errorf("%s, read-only %v: %v", name, ro, err)
			}
		}
		if got, err := os.ReadFile(path); err != nil || !bytes.Equal(got, content) {
			t.Errorf("%s was changed: %v", name, err)
		}
	}
	for _, zeros := range []int{0, 16384} { // creation cut short
		path := filepath.Join(dir, fmt.Sprint("zeros", zeros))
		if err := os.WriteFile(path, make([]byte, zeros), 0o644); err != nil {
			t.Fatal(err)
		}
		save(t, open(t, path, small), 1)
	}
}
