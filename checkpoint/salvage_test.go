package checkpoint

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"go.etcd.io/bbolt"

	"github.com/berth-ml/berth/internal/testall"
)

// alone is what a run saves of which checkpoints share nothing: large and
// small tensors.
func alone(step int) (Manifest, *mem) {
	m, _ := at(step)
	s := &mem{}
	for i, elems := range []int{5000, 3, 64, 900, 200, 10} {
		s.add(fmt.Sprintf("t%d", i), elems, uint64(step)*100+uint64(i))
	}
	return m, s
}

// four is a file of four checkpoints, as a run leaves it that keeps that many
// of six, or that saved four.
func four(t *testing.T, o OpenOptions, pruned bool) []byte {
	t.Helper()
	path := filepath.Join(t.TempDir(), "four.db")
	db := open(t, path, o)
	steps := []int{1, 2, 3, 4}
	if pruned {
		steps = []int{1, 2, 3, 4, 5, 6}
	}
	for _, step := range steps {
		m, src := alone(step)
		if _, err := db.Save(t.Context(), m, src); err != nil {
			t.Fatal(err)
		}
		if _, _, err := db.Prune(t.Context(), Keep{Last: 4}); err != nil {
			t.Fatal(err)
		}
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
	return b[:im.high*uint64(im.page)]
}

// salvaged is how many checkpoints there are in what Salvage makes of a file,
// each as it was saved; none, and no file, where it makes nothing of it.
func salvaged(t *testing.T, b []byte) int {
	t.Helper()
	dir := t.TempDir()
	path, out := filepath.Join(dir, "c.db"), filepath.Join(dir, "whole.db")
	if err := os.WriteFile(path, b, 0o644); err != nil {
		t.Fatal(err)
	}
	n, err := Salvage(t.Context(), path, out, nil)
	if err != nil {
		if left, _ := filepath.Glob(out + "*"); !errors.Is(err, ErrNotFound) || len(left) > 0 {
			t.Fatalf("%v, left behind: %v", err, left)
		}
		return 0
	}
	db := open(t, out, OpenOptions{ReadOnly: true})
	defer db.Close()
	ms, skipped, err := db.List()
	if err != nil || len(skipped) > 0 || len(ms) != n {
		t.Fatal(len(ms), n, skipped, err)
	}
	for _, m := range ms {
		s, err := db.Load(m.ID)
		if err != nil {
			t.Fatal(err)
		}
		_, src := alone(m.Step)
		if err := sameTensors(s, src); err != nil {
			t.Fatal(err)
		}
	}
	return n
}

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

// A copy that is damaged is found by Verify.
func TestVerifySpare(t *testing.T) {
	path := filepath.Join(t.TempDir(), "c.db")
	db := open(t, path, small)
	save(t, db, 1)
	for _, h := range spares(t, db, 1) {
		c, err := db.im.chunkAt(h)
		if err != nil {
			t.Fatal(err)
		}
		flip(t, path, c.at+3)
		var all []string
		if err := db.Verify(t.Context(), 0, func(s Skipped) { all = append(all, s.String()) }); !errors.Is(err, ErrDamaged) || len(all) != 1 || !containsAll(all[0], "checkpoint 1", "second copy") {
			t.Error(err, all)
		}
		flip(t, path, c.at+3)
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

// Salvage that finds nothing leaves no file, can be tried again, and comes to
// an end whatever the file is full of.
func TestSalvageOfNothing(t *testing.T) {
	t.Parallel()
	element := append(chunkMark(keyRaw), 0, 0, 16, 0)
	for _, text := range []string{"no checkpoint\n", `{"chunk":`, `{"format":1,"id":2}`, `{"next":[`, string(element) + "raw", "zstd"} {
		dir := t.TempDir()
		path, out := filepath.Join(dir, "c.db"), filepath.Join(dir, "out.db")
		if err := os.WriteFile(path, bytes.Repeat([]byte(text), testall.Or(1<<17, 1<<20)/len(text)), 0o644); err != nil {
			t.Fatal(err)
		}
		for range 2 {
			if _, err := Salvage(t.Context(), path, out, nil); !errors.Is(err, ErrDamaged) || !errors.Is(err, ErrNotFound) {
				t.Errorf("%s: %v", text, err)
			}
			if left, _ := filepath.Glob(out + "*"); len(left) > 0 {
				t.Errorf("%s: left behind: %v", text, left)
			}
		}
	}
}

// Without room for it, a salvaged file is not left in part, the damaged one stays
// as it is, and it can be tried again.
func TestSalvageWithoutRoom(t *testing.T) {
	t.Parallel()
	const variable = "BERTH_TEST_LIMITED"
	if os.Getenv(variable) == "" { // the limit is a process's
		c := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$")
		c.Env = append(os.Environ(), variable+"=1")
		if out, err := c.CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		return
	}
	limit := func(n uint64) {
		if err := limitFileSize(n); err != nil {
			t.Fatal(err)
		}
	}
	dir := t.TempDir()
	path, out := filepath.Join(dir, "c.db"), filepath.Join(dir, "out.db")
	b := four(t, small, false)
	b[3*4096+8] ^= 0x40
	if err := os.WriteFile(path, b, 0o644); err != nil {
		t.Fatal(err)
	}
	for n := uint64(4096); n < uint64(len(b)/2); n += 10_000 {
		limit(n)
		_, err := Salvage(t.Context(), path, out, nil)
		_, rerr := Recover(t.Context(), path, nil)
		limit(^uint64(0))
		now, e := os.ReadFile(path)
		all, _ := filepath.Glob(filepath.Join(dir, "*"))
		if strings.Contains(errors.Join(err, rerr).Error(), ".berth-") {
			t.Errorf("an error names the unfinished file: %v, %v", err, rerr)
		}
		if !outOfSpace(err) || !outOfSpace(rerr) || e != nil || !bytes.Equal(now, b) || len(all) != 1 {
			t.Fatalf("%d bytes: %v, %v, %v: %q", n, err, rerr, e, all)
		}
	}
	if n := salvaged(t, b); n < 3 {
		t.Errorf("%d checkpoints", n)
	}
}

// A head that names ids in disorder is damaged, and however many it names, the
// list is soon there.
func TestManyIDs(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "c.db")
	db := open(t, path, small)
	save(t, db, 1)
	many := testall.Or(100_000, 1_000_000)
	ids := make([]uint64, many)
	for i := range ids {
		ids[i] = uint64(i) + 1
	}
	err := db.update(func(tx *bbolt.Tx) error {
		for id := range uint64(20_000) {
			if err := tx.Bucket(bucketManifests).Put(idKey(2*id+2), []byte("x")); err != nil {
				return err
			}
		}
		return putHead(tx, head{uint64(many) + 1, ids})
	})
	if err != nil {
		t.Fatal(err)
	}
	ms, skipped, err := db.List()
	if err != nil || len(ms) != 1 || len(skipped) != many-1 {
		t.Fatal(len(ms), len(skipped), err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, _, err := db.Latest(ctx); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	if _, err := decodeHead([]byte(`{"next":3,"ids":[2,1]}`)); !errors.Is(err, ErrDamaged) {
		t.Error(err)
	}
}

func flip(t *testing.T, path string, at int64) {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	b[at] ^= 0x40
	if err := os.WriteFile(path, b, 0o644); err != nil {
		t.Fatal(err)
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
