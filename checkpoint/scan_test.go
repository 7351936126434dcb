package checkpoint

import (
	"bytes"
	"encoding/binary"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"github.com/berth-ml/berth/internal/testall"
)

// TestSalvagePages damages one page at a time. Of four checkpoints that share
// nothing, a number that is wrong costs none or one, and a page that is lost
// never all.
func TestSalvagePages(t *testing.T) {
	t.Parallel()
	every := testall.Or(16, 1)
	packed := small
	packed.Compress = true
	for name, whole := range map[string][]byte{"saved": four(t, small, false), "pruned": four(t, small, true), "packed": four(t, packed, false)} {
		for what, hurt := range map[string]func(page []byte, r *rand.Rand){
			"flags": func(page []byte, _ *rand.Rand) { page[8] ^= 0x40 },
			"byte":  func(page []byte, r *rand.Rand) { page[r.IntN(len(page))] ^= byte(1 + r.IntN(255)) },
			"head":  func(page []byte, r *rand.Rand) { page[r.IntN(128)] ^= byte(1 + r.IntN(255)) },
			"zero":  func(page []byte, _ *rand.Rand) { copy(page, make([]byte, len(page))) },
		} {
			r := rand.New(rand.NewPCG(7, 7))
			var got [5]int
			pages := 0
			for at := 4096 * r.IntN(every); at < len(whole); at += 4096 * every {
				b := bytes.Clone(whole)
				hurt(b[at:at+4096], r)
				got[salvaged(t, b)]++
				pages++
			}
			t.Logf("%s, %s: of %d pages, 0..4 checkpoints are left after damage to %v", name, what, pages, got)
			if got[0] > 0 || what != "zero" && got[1]+got[2] > 0 {
				t.Errorf("%s, %s: too few are left", name, what)
			}
		}
	}
}

// TestSalvageCut cuts a file anywhere: what is whole before the cut is found.
func TestSalvageCut(t *testing.T) {
	t.Parallel()
	for name, whole := range map[string][]byte{"saved": four(t, small, false), "pruned": four(t, small, true)} {
		ends := ends(t, whole)
		for n := range 60 {
			cut := len(whole)*n/60 + n%7
			want := 0
			for _, end := range ends {
				if end <= cut {
					want++
				}
			}
			if got := salvaged(t, whole[:cut]); got < want {
				t.Errorf("%s: cut to %d of %d bytes, %d checkpoints are left of %d before it", name, cut, len(whole), got, want)
			}
		}
	}
}

// ends are the places in a file that each checkpoint lies before, by its large
// contents and the second copies of the rest.
func ends(t *testing.T, b []byte) []int {
	im, err := openImage(bytes.NewReader(b), int64(len(b)))
	if err != nil {
		t.Fatal(err)
	}
	ids, _, err := im.ids()
	if err != nil {
		t.Fatal(err)
	}
	var ends []int
	for _, id := range ids {
		m, err := im.manifest(id, true)
		if err != nil {
			t.Fatal(err)
		}
		hashes, err := im.spares(id)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range m.Tensors {
			for _, c := range e.Chunks {
				if int64(c.Size) > im.page/4 {
					hashes = append(hashes, c.Hash)
				}
			}
		}
		end := int64(0)
		for _, h := range hashes {
			c, err := im.chunkAt(h)
			if err != nil {
				t.Fatal(err)
			}
			end = max(end, c.at+c.size)
		}
		ends = append(ends, int(end))
	}
	return ends
}

// spares are the hashes of a checkpoint's second copies.
func spares(t interface{ Fatal(...any) }, db *DB, id uint64) []Hash {
	hs, err := db.im.spares(id)
	if err != nil {
		t.Fatal(err)
	}
	return hs
}

// A manifest that is damaged is read from its copy, and the file stops growing.
func TestRecoverManifest(t *testing.T) {
	path := filepath.Join(t.TempDir(), "c.db")
	db := open(t, path, small)
	for step := 1; step <= 3; step++ {
		save(t, db, step)
	}
	it, ok, err := db.im.lookup(bucketManifests, idKey(2))
	if err != nil || !ok {
		t.Fatal(ok, err)
	}
	db.Close()
	flip(t, path, it.at+40)
	if db = open(t, path, small); !db.Unreadable() {
		t.Fatal("a manifest is damaged and nothing is said")
	}
	db.Close()
	if _, err := Recover(t.Context(), path, func(s Skipped) { t.Error(s) }); err != nil {
		t.Fatal(err)
	}
	db = open(t, path, small)
	if ms, skipped, err := db.List(); err != nil || len(ms) != 3 || len(skipped) > 0 || db.Unreadable() {
		t.Fatal(ms, skipped, err)
	}
	for id := range uint64(3) {
		s, err := db.Load(id + 1)
		if err != nil {
			t.Fatal(err)
		}
		if err := same(s, int(id)+1); err != nil {
			t.Error(err)
		}
	}
	if err := db.Verify(t.Context(), 0, nil); err != nil {
		t.Error(err)
	}
}

// What was deleted stays so, also where it can still be found.
func TestSalvageBringsBackNothingDeleted(t *testing.T) {
	path := filepath.Join(t.TempDir(), "c.db")
	db := open(t, path, small)
	for step := 1; step <= 3; step++ {
		save(t, db, step)
	}
	if err := db.Delete(1, 3); err != nil {
		t.Fatal(err)
	}
	root := int64(db.im.root) * db.im.page
	db.Close()
	flip(t, path, root+8)
	out := path + ".whole"
	if n, err := Salvage(t.Context(), path, out, nil); err != nil || n != 1 {
		t.Fatal(n, err)
	}
	if _, err := open(t, out, OpenOptions{}).Load(2); err != nil {
		t.Error(err)
	}
}

// A checkpoint that only the scan finds, and of which the tensor table is lost, is
// one more that is left out.
func TestSalvageWithoutATable(t *testing.T) {
	path := filepath.Join(t.TempDir(), "c.db")
	db := open(t, path, small)
	for step := 1; step <= 3; step++ {
		m, src := alone(step)
		if _, err := db.Save(t.Context(), m, src); err != nil {
			t.Fatal(err)
		}
	}
	m, err := db.im.manifest(3, true)
	if err != nil {
		t.Fatal(err)
	}
	mark := []byte(m.Tensors[1].Chunks[0].Hash.String())
	db.Close()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	// The last commit is not seen, and its table is gone wherever it stands.
	const page, meta, size = 4096, 16, 64
	first, second := b[meta:meta+size], b[page+meta:page+meta+size]
	if binary.LittleEndian.Uint64(first[48:]) > binary.LittleEndian.Uint64(second[48:]) {
		first, second = second, first
	}
	copy(second, first)
	for i := bytes.Index(b, mark); i >= 0; i = bytes.Index(b, mark) {
		copy(b[i:], make([]byte, len(mark)))
	}
	_, src := alone(1)
	b[bytes.Index(b, src.data["t0"][:64])] ^= 1
	if err := os.WriteFile(path, b, 0o644); err != nil {
		t.Fatal(err)
	}
	out := path + "2"
	if n, err := Salvage(t.Context(), path, out, nil); err != nil || n != 1 {
		t.Fatalf("salvaged %d, %v", n, err)
	}
	if _, err := open(t, out, OpenOptions{}).Load(2); err != nil {
		t.Error(err)
	}
}
