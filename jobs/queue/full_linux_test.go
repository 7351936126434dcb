package queue

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"
)

// TestFullDisk: requests are refused, what has happened is taken, and the file has it once there is
// room.
func TestFullDisk(t *testing.T) {
	dir := t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=2m"); err != nil {
		t.Skip("mount: ", err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(dir, syscall.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	path, filler := filepath.Join(dir, "queue.db"), filepath.Join(dir, "full")
	q := opened(t, path)
	runs, waits := submitted(t, q, "a"), submitted(t, q, "b")
	begun(t, q, runs, false)
	fill(t, filler)
	refused := 0
	for i := range 200 { // free pages of the file take the first ones
		if _, err := q.SetPriority(waits, i); err != nil {
			refused++
			if !errors.Is(err, syscall.ENOSPC) {
				t.Fatal(err)
			}
		}
		q.Stood(runs, i%2 == 0, time.Hour, time.Duration(i))
	}
	big := submission("c")
	big.Config = make([]byte, 1<<20)
	if _, err := q.Submit(big); !errors.Is(err, syscall.ENOSPC) {
		t.Fatalf("a submission on a full disk: %v", err)
	}
	q.End(runs, Result{Complete: true})
	t.Logf("%d of 200 changes of a priority were refused; full: %v", refused, q.Full())
	before := q.Jobs()
	if before[0].State != Finished {
		t.Errorf("the job that ended is %s", before[0].State)
	}
	if err := os.Remove(filler); err != nil {
		t.Fatal(err)
	}
	if err := q.Flush(); err != nil || q.Full() != nil {
		t.Errorf("with room again: %v, %v", err, q.Full())
	}
	after := killed(t, path).Jobs()
	if len(after) != 2 || after[0].State != Finished || after[1].Priority != before[1].Priority {
		t.Errorf("the file has %+v", after)
	}
	if _, err := q.Submit(submission("c")); err != nil {
		t.Error(err)
	}
}

func fill(t *testing.T, path string) {
	t.Helper()
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for err == nil {
		_, err = f.Write(make([]byte, 4096))
	}
	if !errors.Is(err, syscall.ENOSPC) {
		t.Fatal(err)
	}
}

// TestFullForSubmissions: a submission that found no room makes the queue full until there is, though all that
// has happened is written.
func TestFullForSubmissions(t *testing.T) {
	dir := t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=2m"); err != nil {
		t.Skip("mount: ", err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(dir, syscall.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	filler := filepath.Join(dir, "full")
	q := opened(t, filepath.Join(dir, "queue.db"))
	fill(t, filler)
	if q.Full() != nil {
		t.Errorf("before anything is refused: %v", q.Full())
	}
	big := submission("c")
	big.Config = make([]byte, 1<<20)
	if _, err := q.Submit(big); !errors.Is(err, syscall.ENOSPC) {
		t.Fatalf("a submission on a full disk: %v", err)
	}
	for range 2 {
		if err := q.Flush(); err != nil || !errors.Is(q.Full(), syscall.ENOSPC) {
			t.Errorf("after a submission that was refused: %v, %v", err, q.Full())
		}
	}
	if err := os.Remove(filler); err != nil {
		t.Fatal(err)
	}
	if err := q.Flush(); err != nil || q.Full() != nil {
		t.Errorf("with room again: %v, %v", err, q.Full())
	}
	if names, err := os.ReadDir(dir); err != nil || len(names) != 2 { // with its lock
		t.Errorf("%v, %v", names, err)
	}
}
