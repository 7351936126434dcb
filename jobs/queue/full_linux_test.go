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
	t.Logf("%d of 200 changes of a priority were refused; late: %v", refused, q.Late())
	before := q.Jobs()
	if before[0].State != Finished {
		t.Errorf("the job that ended is %s", before[0].State)
	}
	if err := os.Remove(filler); err != nil {
		t.Fatal(err)
	}
	if err := q.Flush(); err != nil || q.Late() != nil {
		t.Errorf("with room again: %v, %v", err, q.Late())
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
