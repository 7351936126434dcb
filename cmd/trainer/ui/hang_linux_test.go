package ui

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/berth-ml/berth/checkpoint/rundir"
	"github.com/berth-ml/berth/cmd/trainer/internal/queued"
)

// dead mounts a file system on a folder that answers nothing, like one behind a network that has gone. revive unmounts it: who
// waits for it gets an error.
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

// Folders of runs that do not answer hold up nobody: they say so, and the other runs, their curves and their streams are there. No
// more looks at them are begun than there are folders. Once they answer, they are as they were.
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
	if n := underWay(c.s.board); n > 3 {
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

// underWay is how many visits to folders of runs are under way.
func underWay(b *board) (n int) {
	b.pulse.looking <- struct{}{} // or a look uses them
	defer b.pulse.looking.Give()
	for of, p := range b.visits.pools {
		if of.in == "" {
			n += len(p.Places)
		}
	}
	return n
}

// Many folders on one disk that is dead take no place of the others, which are looked at as before, however often.
func TestDiskHangs(t *testing.T) {
	folder, disk := copied(t, "good", "sweep/trial-001"), t.TempDir()
	dead(t, disk)
	var jobs []queued.Record
	for i := range mostBeside + 6 {
		jobs = append(jobs, queued.Record{ID: i + 1, State: "running", Run: filepath.Join(disk, fmt.Sprint("run", i))})
	}
	for i := range 2 * mostVisits { // as many as there may be, each in a folder of its own
		jobs = append(jobs, queued.Record{ID: len(jobs) + 1, State: "running", Run: filepath.Join(disk, fmt.Sprint("sweep", i), "trial-001")})
	}
	c := serve(t, Options{Folder: folder, Jobs: func(context.Context) []queued.Record { return slices.Clone(jobs) }})
	for look := range 3 {
		c.s.board.pulse.looking <- struct{}{}
		c.s.board.look(t.Context())
		c.s.board.pulse.looking.Give()
		states := map[string]int{}
		for _, r := range c.table(t).Rows {
			if r.Run != nil {
				states[r.Run.State]++
				if within, _ := filepath.Rel(folder, r.Run.Run); filepath.IsLocal(within) && r.Run.State != "finished" {
					t.Errorf("look %d: %s is %s: %s", look, within, r.Run.State, r.Run.Error)
				}
			}
		}
		if want := map[string]int{"finished": 2, "unreadable": len(jobs)}; !maps.Equal(states, want) {
			t.Errorf("look %d: %v, not %v", look, states, want)
		}
		if n := underWay(c.s.board); n > mostVisits {
			t.Errorf("look %d: %d visits to dead folders are under way", look, n)
		}
	}
}

// A disk that is slow but answers is no dead one: who waits for a place waits on while some become free, however long that takes in
// all.
func TestSlowFoldersAreVisited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v := newVisits()
		visits := map[string]*visit{}
		began := time.Now()
		for i := range 200 * mostBeside {
			of := fmt.Sprintf("/runs/%d", i)
			if visits[of] = v.begin(t.Context(), of, func() found { time.Sleep(turnTime); return found{real: of} }); visits[of] == nil {
				t.Fatalf("%s got no place after %v", of, time.Since(began))
			}
		}
		for of, x := range visits {
			if f, ok := v.end(t.Context(), of, x); !ok || f.real != of {
				t.Fatalf("%s: %v %v", of, f, ok)
			}
		}
		if took := time.Since(began); took < 2*patience {
			t.Errorf("the visits took %v, which tries nothing", took)
		}
		v.going.close()
	})
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
