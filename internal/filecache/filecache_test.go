package filecache

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// of is the file of a key whose contents are text, and whether it was made.
func of(t *testing.T, c Folder, key byte, text string) (got string, made bool) {
	t.Helper()
	f, err := c.Open(t.Context(), Key{key}, func(w io.Writer) error {
		made = true
		_, err := io.WriteString(w, text)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return string(f.Bytes()), made
}

func path(c Folder, key byte) string {
	names, _ := filepath.Glob(filepath.Join(c.Dir, string("0123456789abcdef"[key>>4])+string("0123456789abcdef"[key&15])+"*"))
	return strings.Join(names, " and ")
}

// A file is made once. One that is damaged anywhere is made anew.
func TestOpen(t *testing.T) {
	c := Folder{filepath.Join(t.TempDir(), "a", "b"), Tokens, Tokens.Most}
	if got, made := of(t, c, 1, "text"); got != "text" || !made {
		t.Errorf("%q, made: %v", got, made)
	}
	if got, made := of(t, c, 1, "other"); got != "text" || made {
		t.Errorf("again: %q, made: %v", got, made)
	}
	whole, err := os.ReadFile(path(c, 1))
	if err != nil {
		t.Fatal(err)
	}
	for _, at := range []int{0, lengthAt, sumAt, sumAt + 31, headerBytes - 1, headerBytes, len(whole) - 1} {
		damaged := []byte(string(whole))
		damaged[at] ^= 4
		for _, b := range [][]byte{damaged, whole[:at], append(damaged[:len(damaged):len(damaged)], 'x')} {
			if err := os.WriteFile(path(c, 1), b, 0o600); err != nil {
				t.Fatal(err)
			}
			if got, made := of(t, c, 1, "text"); got != "text" || !made {
				t.Fatalf("byte %d: %q, made: %v", at, got, made)
			}
		}
	}
	if err := c.Put(Key{1}, func(w io.Writer) error { _, err := io.WriteString(w, "another"); return err }); err != nil {
		t.Fatal(err)
	}
	if got, made := of(t, c, 1, "text"); got != "another" || made {
		t.Errorf("put: %q, made: %v", got, made)
	}
	if _, err := c.Get(t.Context(), Key{3}); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("get what is not there: %v", err)
	}
	failed := errors.New("failed")
	if _, err := c.Open(t.Context(), Key{2}, func(io.Writer) error { return failed }); !errors.Is(err, failed) || path(c, 2) != "" {
		t.Errorf("%v; left: %s", err, path(c, 2))
	}
}

// The files used longest ago go first; the newest stays, however large.
func TestPrune(t *testing.T) {
	c := Folder{t.TempDir(), Tokens, 3 * (headerBytes + 10)}
	for key := range byte(3) {
		of(t, c, key, "ten bytes.")
		old := time.Now().Add(time.Duration(key)*time.Minute - time.Hour)
		if err := os.Chtimes(path(c, key), old, old); err != nil {
			t.Fatal(err)
		}
	}
	other := filepath.Join(c.Dir, "other")
	if err := os.WriteFile(other, make([]byte, 1000), 0o600); err != nil {
		t.Fatal(err)
	}
	const nobody = 1 << 30 // a process id that no system gives
	half, making := fmt.Sprintf("%s.berth-%d-1", path(c, 0), nobody), fmt.Sprintf("%s.berth-%d-1", path(c, 2), os.Getpid())
	for _, p := range []string{half, making} {
		if err := os.WriteFile(p, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	of(t, c, 0, "") // it is used
	held, err := c.Open(t.Context(), Key{1}, nil)
	if err != nil {
		t.Fatal(err)
	}
	old := time.Now().Add(-2 * time.Hour)
	if err := os.Chtimes(path(c, 1), old, old); err != nil {
		t.Fatal(err)
	}
	of(t, c, 3, "ten bytes.")
	if path(c, 0) == "" || path(c, 1) != "" || path(c, 2) == "" || path(c, 3) == "" {
		t.Error("another file than that used longest ago was removed")
	}
	if _, err := os.Stat(half); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the file that a killed process was making is there: %v", err)
	}
	if err := os.Remove(making); err != nil {
		t.Errorf("another process made this file: %v", err)
	}
	if string(held.Bytes()) != "ten bytes." {
		t.Error("a removed file cannot be read by those who have it")
	}
	of(t, c, 4, strings.Repeat("large", 100))
	names, _ := filepath.Glob(filepath.Join(c.Dir, "*"+Tokens.suffix()))
	if _, err := os.Stat(other); err != nil || len(names) != 1 || path(c, 4) == "" {
		t.Errorf("left: %v; %v", names, err)
	}
}

// Several may make a file at once.
func TestTogether(t *testing.T) {
	c := Folder{t.TempDir(), Tokens, Tokens.Most}
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			f, err := c.Open(t.Context(), Key{1}, func(w io.Writer) error {
				_, err := io.WriteString(w, strings.Repeat("text", 1000))
				return err
			})
			if err != nil || len(f.Bytes()) != 4000 {
				t.Error(err)
			}
		})
	}
	all.Wait()
}

func TestDefault(t *testing.T) {
	t.Setenv(Variable, "/x/y")
	if c, err := Default(Tokens); err != nil || c.Dir != "/x/y" || c.Most != Tokens.Most {
		t.Errorf("%+v, %v", c, err)
	}
	t.Setenv(Variable, "")
	t.Setenv("XDG_CACHE_HOME", "/z")
	t.Setenv("HOME", "/h")
	if c, err := Default(Tokens); err != nil || !strings.HasSuffix(c.Dir, filepath.Join("berth", "tokens")) {
		t.Errorf("%+v, %v", c, err)
	}
}

// Whatever is in the folder under a key's name, the contents are those that were made.
func FuzzOpen(f *testing.F) {
	sum := sha256.Sum256([]byte("text"))
	f.Add(append(Tokens.header(4, sum[:]), "text"...))
	f.Add(append(Tokens.header(1<<60, sum[:]), "text"...))
	f.Add([]byte(""))
	f.Fuzz(func(t *testing.T, b []byte) {
		c := Folder{t.TempDir(), Tokens, Tokens.Most}
		of(t, c, 1, "text")
		if err := os.WriteFile(path(c, 1), b, 0o600); err != nil {
			t.Fatal(err)
		}
		if got, _ := of(t, c, 1, "text"); got != "text" {
			t.Errorf("%q", got)
		}
	})
}
