package ui

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/berth-ml/berth/checkpoint/rundir"
)

// dead mounts a file system on a folder that answers nothing, like one behind a network that has gone. revive unmounts it: who waits for
// it gets an error.
func dead(t *testing.T, dir string) (revive func()) {
	t.Helper()
	fuse, err := os.OpenFile("/dev/fuse", os.O_RDWR, 0)
	if err != nil {
		t.Skip(err)
	}
	options := fmt.Sprintf("fd=%d,rootmode=40000,user_id=%d,group_id=%d", fuse.Fd(), os.Getuid(), os.Getgid())
	if err := syscall.Mount("dead", dir, "fuse", syscall.MS_NOSUID|syscall.MS_NODEV, options); err != nil {
		fuse.Close()
		t.Skip(err)
	}
	revived := false
	revive = func() {
		if !revived {
			revived = true
			if err := fuse.Close(); err != nil {
				t.Error(err)
			}
			if err := syscall.Unmount(dir, syscall.MNT_DETACH); err != nil {
				t.Error(err)
			}
		}
	}
	t.Cleanup(revive)
	return revive
}

// Folders of runs that do not answer hold up nobody: they say so, and the other runs, their curves and their streams are there. No more
// looks at them are begun than there are folders. Once they answer, they are as they were.
func TestFolderHangs(t *testing.T) {
	folder := copied(t, "good", "stuck", "sweep/trial-001", "sweep/trial-002")
	c := serve(t, Options{Folder: folder})
	good, stuck := c.id(t, "good"), c.id(t, "stuck")
	late := filepath.Join(folder, "late") // which was never seen before
	if err := os.Mkdir(late, 0o755); err != nil {
		t.Fatal(err)
	}
	v := c.table(t)
	s := c.stream(t, fmt.Sprintf("instance=%s&since=%d&x=step&run=%s&run=%s&log=%s", v.Instance, v.Version, stuck, good, stuck))
	next := func(name string) {
		t.Helper()
		for there := false; !there; {
			var e struct{ Run string }
			there = s.next(&e) == name && e.Run == good
		}
	}
	next("anew") // from here on it sends points
	var revive []func()
	for _, name := range []string{"stuck", "sweep", "late"} {
		revive = append(revive, dead(t, filepath.Join(folder, name)))
	}
	states := func() map[string]string {
		got := map[string]string{}
		for _, r := range c.table(t).Rows {
			if r.Run != nil {
				name, _ := filepath.Rel(folder, r.Run.Run)
				got[name] = r.Run.State
				if answers := name == "good"; answers == strings.Contains(r.Run.Error, "has not answered since") && r.Run.State == string(rundir.Unreadable) {
					t.Errorf("%s: %+v", name, r.Run)
				}
			}
		}
		return got
	}
	hung := map[string]string{"good": "finished", "stuck": "unreadable", "sweep/trial-001": "unreadable", "sweep/trial-002": "unreadable", "late": "unreadable"}
	until(t, func() bool { return fmt.Sprint(states()) == fmt.Sprint(hung) })
	for _, path := range []string{"/api/run?run=", "/api/curves?panel=loss&x=step&columns=100&run="} {
		if status, body, _ := c.do(t, c.request(t, path+good)); status != http.StatusOK {
			t.Errorf("a run beside them: %d %s", status, body)
		}
		if status, body, _ := c.do(t, c.request(t, path+stuck)); status != http.StatusServiceUnavailable || !strings.Contains(body, "stuck: its folder has not answered since") {
			t.Errorf("one of them: %d %s", status, body)
		}
	}
	if status, body, _ := c.do(t, c.request(t, "/metrics")); status != http.StatusOK || !strings.Contains(body, `berth_runs{state="unreadable"} 4`) {
		t.Errorf("numbers: %d %s", status, body)
	}
	appendTo(t, filepath.Join(folder, "good"), line(1000, 0.5))
	next("points")
	for range 3 {
		c.s.board.pulse.after(t.Context(), 0)
	}
	if n := len(c.s.board.visits.places); n > 3 {
		t.Errorf("%d visits to 3 folders are under way", n)
	}
	for _, f := range revive {
		f()
	}
	until(t, func() bool {
		return fmt.Sprint(states()) == fmt.Sprint(map[string]string{"good": "finished", "stuck": "finished", "sweep/trial-001": "finished", "sweep/trial-002": "finished"})
	})
	if status, body, _ := c.do(t, c.request(t, "/api/run?run="+stuck)); status != http.StatusOK {
		t.Errorf("afterwards: %d %s", status, body)
	}
}

// Where the folder of all runs does not answer, the page is told, and the server ends nevertheless.
func TestRootHangs(t *testing.T) {
	folder := t.TempDir()
	revive := dead(t, folder)
	s, err := New(Options{Folder: folder})
	if err != nil {
		t.Fatal(err)
	}
	c := &client{s: s}
	if err := s.board.fresh(t.Context()); err == nil || !strings.Contains(err.Error(), "its folder has not answered since") {
		t.Errorf("the table: %v", err)
	}
	began := time.Now()
	c.s.Close()
	t.Logf("closed within %v", time.Since(began))
	revive()
}
