package checkpoint

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/berth-ml/berth/internal/testall"
)

// TestFaults makes the disk of a process that saves, prunes and compacts fail
// at every call in turn, in several ways, once or from then on. The process
// says so in a line that names file and cause; what it said it had saved before
// or saves after it is there, whole, and the file can be written to again.
func TestFaults(t *testing.T) {
	t.Parallel()
	writes := []uint64{unix.SYS_WRITE, unix.SYS_PWRITE64}
	syncs := []uint64{unix.SYS_FSYNC, unix.SYS_FDATASYNC}
	truncates := []uint64{unix.SYS_FTRUNCATE}
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	for name, f := range map[string]fault{
		"a write fails":            {calls: writes, errno: syscall.EIO},
		"writes fail":              {calls: writes, errno: syscall.EIO, stays: true},
		"the disk is full":         {calls: append(writes, truncates...), errno: syscall.ENOSPC, stays: true},
		"a quota is reached":       {calls: writes, errno: syscall.EDQUOT},
		"a write is cut short":     {calls: writes, errno: syscall.ENOSPC, short: true},
		"a sync fails":             {calls: syncs, errno: syscall.EIO},
		"syncs fail":               {calls: syncs, errno: syscall.EIO, stays: true},
		"a file cannot be resized": {calls: truncates, errno: syscall.EIO},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := rand.New(rand.NewPCG(seed, uint64(len(name))))
			for f.at = 0; ; f.at++ {
				if !testall.Wanted() && r.IntN(8) > 0 {
					f.at += r.IntN(16)
				}
				if calls := faulty(t, f); f.at >= calls {
					t.Logf("%d calls", calls)
					break
				}
			}
		})
	}
}

// faulty runs a process with a fault, and returns how many calls could have
// failed.
func faulty(t *testing.T, f fault) int {
	t.Helper()
	dir := t.TempDir()
	path := filepath.Join(dir, "c.db")
	tr := traced(t, "faulty", path, dir, &f)
	last, opened := 0, true
	for _, op := range tr.ops {
		if op.kind != opSay {
			continue
		}
		if n, _ := fmt.Sscanf(op.said, "saved %d", &last); n == 1 {
			continue
		}
		var what, text string
		if n, err := fmt.Sscanf(op.said, "failed %s %q", &what, &text); n != 2 {
			t.Fatalf("call %d: the process said %q: %v", f.at, op.said, err)
		}
		opened = opened && what != "open:"
		if !strings.Contains(text, f.errno.Error()) && !strings.Contains(text, "opened again") || !strings.Contains(text, dir) || strings.Contains(text, "\n") {
			t.Errorf("call %d: the error of %s %s", f.at, what, text)
		}
		if what == "save:" && outOfSpace(f.errno) && !strings.Contains(text, "free some space") {
			t.Errorf("call %d: the error says nothing of room: %s", f.at, text)
		}
	}
	if left, err := filepath.Glob(path + ".*"); err != nil || len(left) > 0 {
		t.Errorf("call %d: left %v, %v", f.at, left, err)
	}
	if err := afterFault(path, last); err != nil {
		t.Errorf("call %d: after step %d: %v", f.at, last, err)
	}
	return tr.seen
}

// afterFault opens the file as a run that goes on would, wants the checkpoint of
// a step or of a later one in it, and saves another.
func afterFault(path string, last int) error {
	db, err := Open(path, OpenOptions{})
	if err != nil {
		return err
	}
	defer db.Close()
	s, skipped, err := db.Latest(ctxForever)
	switch {
	case errors.Is(err, ErrNotFound) && last == 0:
	case err != nil:
		return err
	case len(skipped) > 0:
		return fmt.Errorf("skipped %v", skipped)
	case s.Manifest.Step < last:
		return fmt.Errorf("the newest checkpoint is of step %d", s.Manifest.Step)
	default:
		if err := same(s, s.Manifest.Step); err != nil {
			return err
		}
	}
	m, src := at(9)
	if _, err := db.Save(ctxForever, m, src); err != nil {
		return err
	}
	return db.Verify(ctxForever, 0, nil)
}
