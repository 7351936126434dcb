package osfile

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A file gets its new contents whole or keeps the old ones, and nothing is left
// beside it, whatever happens. Errors name the file that was asked for.
func TestReplace(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "file")
	write(t, path, "old")
	broken := errors.New("broken")
	replace := func(end func(next *os.File) error) (err error) {
		defer func() {
			if p := recover(); p != nil {
				err = p.(error)
			}
		}()
		return Replace(path, func(f *os.File) error {
			if _, err := f.WriteString("new"); err != nil {
				return err
			}
			return end(f)
		})
	}
	for _, c := range []struct {
		end  func(*os.File) error
		want error
		text string
	}{
		{func(*os.File) error { return broken }, broken, "old"},
		{func(*os.File) error { panic(broken) }, broken, "old"},
		{func(f *os.File) error { return f.Close() }, os.ErrClosed, "old"},
		{func(*os.File) error { return nil }, nil, "new"},
	} {
		err := replace(c.end)
		if !errors.Is(err, c.want) || err != nil && strings.Contains(err.Error(), ".berth-") {
			t.Errorf("got %v, want %v", err, c.want)
		}
		text, err := os.ReadFile(path)
		if all, e := os.ReadDir(dir); err != nil || e != nil || string(text) != c.text || len(all) != 1 {
			t.Errorf("%q, %v, %v, %v", text, all, err, e)
		}
	}
}
