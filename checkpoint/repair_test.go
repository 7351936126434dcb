package checkpoint

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/berth-ml/berth/internal/testall"
)

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

// TestRecover spoils the free list of a file with three checkpoints and a
// chunk of the newest.
func TestRecover(t *testing.T) {
	path := filepath.Join(t.TempDir(), "c.db")
	b := victim(t)
	im, err := openImage(bytes.NewReader(b), int64(len(b)))
	if err != nil {
		t.Fatal(err)
	}
	copy(b[int64(im.free)*im.page+pageHeader:], bytes.Repeat([]byte{0x5a}, 64))
	_, src := at(5)
	for at := bytes.Index(b, src.data["moving"][:64]); at >= 0; at = bytes.Index(b, src.data["moving"][:64]) {
		b[at] ^= 1
	}
	if err := os.WriteFile(path, b, 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(path, small); !errors.Is(err, ErrDamaged) {
		t.Fatalf("opened a file whose free list is damaged: %v", err)
	}
	for round := 1; round <= 2; round++ {
		var skipped []Skipped
		aside, err := Recover(t.Context(), path, func(s Skipped) {
			skipped = append(skipped, s)
			_, err := Open(path, OpenOptions{Readers: time.Hour})
			if want := "in use by this process: "; !errors.Is(err, ErrHeld) || !strings.Contains(err.Error(), want) {
				t.Errorf("meanwhile: %v", err)
			}
		})
		if err != nil {
			t.Fatal(err)
		}
		if left, err := filepath.Glob(path + ".*"); err != nil || len(left) != round { // the damaged files
			t.Errorf("round %d: left %v, %v", round, left, err)
		}
		if kept, err := os.ReadFile(aside); err != nil || round == 1 && !bytes.Equal(kept, b) {
			t.Errorf("round %d: the damaged file is not kept: %v", round, err)
		}
		if want := 2 - round; len(skipped) != want || want == 1 && skipped[0].ID != 5 {
			t.Errorf("round %d: skipped %v", round, skipped)
		}
		db := open(t, path, small)
		for _, id := range []uint64{2, 4} {
			s, err := db.Load(id)
			if err != nil {
				t.Fatal(err)
			}
			if err := sameTensors(s, second(at(int(id)))); err != nil {
				t.Error(err)
			}
		}
		if err := db.Delete(save(t, db, 6)); err != nil {
			t.Fatal(err)
		}
		db.Close()
	}
}

func second[A, B any](_ A, b B) B { return b }

// TestRecoverNothing leaves a file alone that holds nothing whole.
func TestRecoverNothing(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "c.db")
	db := open(t, path, small)
	db.Close()
	before, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Recover(t.Context(), path, nil); !errors.Is(err, ErrNotFound) {
		t.Errorf("got %v, want ErrNotFound", err)
	}
	after, err := os.ReadFile(path)
	if err != nil || !bytes.Equal(before, after) {
		t.Errorf("the file is not what it was: %v", err)
	}
	if left, _ := filepath.Glob(filepath.Join(dir, "*"+wholeSuffix+"*")); len(left) > 0 {
		t.Errorf("left behind: %v", left)
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
