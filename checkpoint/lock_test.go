package checkpoint

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/berth-ml/berth/engine/osfile"
)

func TestHeld(t *testing.T) {
	path := filepath.Join(t.TempDir(), "c.db")
	db := open(t, path, small)
	for _, o := range []OpenOptions{{}, {ReadOnly: true}} {
		start := time.Now()
		_, err := Open(path, o)
		if !errors.Is(err, ErrHeldHere) || !strings.Contains(err.Error(), "in use by this process: ") {
			t.Fatalf("second open: %v", err)
		}
		if d := time.Since(start); d > time.Second {
			t.Errorf("took %v", d)
		}
	}
	db.Close()
	a := open(t, path, OpenOptions{ReadOnly: true})
	open(t, path, OpenOptions{ReadOnly: true})
	if _, err := Open(path, OpenOptions{}); !errors.Is(err, ErrHeld) {
		t.Fatalf("writer while readers have it: %v", err)
	}
	a.Close()
	db = open(t, path+"2", small)
	for _, o := range []OpenOptions{{Readers: time.Hour}, {ReadOnly: true, Readers: time.Hour}} {
		if _, err := Open(path+"2", o); !errors.Is(err, ErrHeld) { // at once: it is no reader
			t.Fatalf("while a writer has it: %v", err)
		}
	}
	db.Close()
	r := open(t, path+"2", OpenOptions{ReadOnly: true})
	time.AfterFunc(50*time.Millisecond, func() { r.Close() })
	open(t, path+"2", OpenOptions{Readers: time.Minute})
	if _, err := os.Stat(osfile.PidPath(path)); !os.IsNotExist(err) {
		t.Errorf("the process id was left behind: %v", err)
	}
	if _, err := Open(path+".no", OpenOptions{ChunkBytes: 1001}); err == nil || !strings.Contains(err.Error(), "no element is cut") {
		t.Errorf("chunks of 1001 bytes: %v", err)
	}
	if _, err := Open(path+".no", OpenOptions{ReadOnly: true}); !errors.Is(err, ErrNotFound) {
		t.Errorf("missing file: %v", err)
	}
}

// The holder of a file is named once; readers are told of copies.
func TestHeldIsSaidOnce(t *testing.T) {
	path := filepath.Join(t.TempDir(), "c.db")
	open(t, path, small)
	for _, reading := range []bool{false, true} {
		_, err := Open(path, OpenOptions{ReadOnly: reading})
		if !errors.Is(err, ErrHeld) || strings.Count(err.Error(), "in use by") != 1 || strings.Contains(err.Error(), "checkpoints copy") != reading {
			t.Errorf("reading %v: %v", reading, err)
		}
	}
}

// Another process is named, and after it died its name means nothing.
func TestHeldByProcess(t *testing.T) {
	path := filepath.Join(t.TempDir(), "c.db")
	c := child("hold", path)
	in, err := c.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	bufio.NewScanner(out).Scan()
	_, err = Open(path, OpenOptions{})
	if want := fmt.Sprintf("in use by process %d:", c.Process.Pid); !errors.Is(err, ErrHeld) || !strings.Contains(err.Error(), want) {
		t.Errorf("want %q: %v", want, err)
	}
	c.Process.Kill()
	c.Wait()
	in.Close()
	r := open(t, path, OpenOptions{ReadOnly: true})
	if _, err := Open(path, OpenOptions{}); !errors.Is(err, ErrHeld) || !strings.Contains(err.Error(), "in use by another process") {
		t.Errorf("after its death: %v", err)
	}
	r.Close()
	save(t, open(t, path, OpenOptions{Timeout: time.Second}), 1)
}

func childHolds(path string) error {
	if _, err := Open(path, OpenOptions{}); err != nil {
		return err
	}
	fmt.Println("open")
	_, err := os.Stdin.Read(make([]byte, 1))
	return err
}
