package checkpoint

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

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
			if want := "held by this process: "; !errors.Is(err, ErrHeld) || !strings.Contains(err.Error(), want) {
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
