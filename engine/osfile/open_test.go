package osfile

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"testing"
)

// What is not a file is refused at once, and a link is not written through.
func TestOpenRefuses(t *testing.T) {
	dir := t.TempDir()
	file, link, nowhere := filepath.Join(dir, "file"), filepath.Join(dir, "link"), filepath.Join(dir, "nowhere")
	write(t, file, "text")
	if err := errors.Join(os.Symlink(file, link), os.Symlink(filepath.Join(dir, "none"), nowhere)); err != nil {
		t.Skip(err)
	}
	for _, c := range []struct {
		path string
		flag int
		want error
	}{
		{file, os.O_RDWR, nil},
		{link, os.O_RDONLY, nil},
		{link, os.O_RDWR, ErrLink},
		{link, os.O_RDWR | os.O_CREATE, ErrLink},
		{nowhere, os.O_RDWR | os.O_CREATE, ErrLink},
		{nowhere, os.O_RDONLY, fs.ErrNotExist},
		{dir, os.O_RDONLY, ErrNotFile},
		{dir, os.O_RDWR, ErrNotFile},
	} {
		f, err := Open(c.path, c.flag)
		if !errors.Is(err, c.want) || (err == nil) != (c.want == nil) {
			t.Errorf("%s, flags %#x: got %v, want %v", c.path, c.flag, err, c.want)
		}
		if err == nil {
			f.Close()
		}
	}
	if _, err := Read(dir, 9); !errors.Is(err, ErrNotFile) {
		t.Errorf("read: got %v", err)
	}
	if got, err := Read(link, 9); string(got) != "text" || err != nil {
		t.Errorf("read: %q, %v", got, err)
	}
	if _, err := Read(nowhere, 9); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("read: got %v", err)
	}
}

// A file that is to take the place of another has its mode, and is not written
// through a link that was there.
func TestCreateFor(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("the folder decides who may use a file")
	}
	dir := t.TempDir()
	path, next, mine := filepath.Join(dir, "file"), filepath.Join(dir, "file.new"), filepath.Join(dir, "mine")
	for _, mode := range []fs.FileMode{0o600, 0o666, 0o440} {
		write(t, mine, "text")
		write(t, path, "old")
		if err := errors.Join(os.Chmod(path, mode), os.Symlink(mine, next)); err != nil {
			t.Fatal(err)
		}
		f, err := CreateFor(path, next)
		if err != nil {
			t.Fatal(err)
		}
		st, err := f.Stat()
		if err != nil || st.Mode().Perm() != mode {
			t.Errorf("mode %v, want %v, %v", st.Mode(), mode, err)
		}
		_, err = f.WriteString("new")
		if err := errors.Join(err, f.Close(), os.Remove(next), os.Remove(path)); err != nil {
			t.Fatal(err)
		}
		if text, err := os.ReadFile(mine); string(text) != "text" {
			t.Errorf("the file that the link led to: %q, %v", text, err)
		}
	}
}
