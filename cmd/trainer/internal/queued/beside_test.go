package queued

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/berth-ml/berth"
	"github.com/berth-ml/berth/cmd/trainer/internal/overview"
	"github.com/berth-ml/berth/configs"
	"github.com/berth-ml/berth/jobs"
	"github.com/berth-ml/berth/jobs/queue"
	"github.com/berth-ml/berth/jobs/socket"
)

func submission(t *testing.T, parent, key string, priority int) jobs.Submission {
	t.Helper()
	c, err := configs.Load("digits", configs.Overlay{Set: []string{"train.epochs=100000", "name=" + key}})
	if err != nil {
		t.Fatal(err)
	}
	kept, err := c.Kept()
	if err != nil {
		t.Fatal(err)
	}
	return jobs.Submission{Key: key, Config: kept, Parent: parent, Priority: priority}
}

// TestBeside: a command that is no part of the queue sees which jobs wait, with a daemon and without, and whether one
// runs. It makes no queue.
func TestBeside(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "q")
	t.Setenv(pathVariable, path)
	resting := func() (dirs []string) {
		t.Helper()
		list, err := Resting(t.Context(), "1")
		if err != nil {
			t.Error(err)
		}
		for _, j := range list {
			dirs = append(dirs, j.Dir)
		}
		return dirs
	}
	if got, text := resting(), Beside(t.Context(), "1"); got != nil || text != "" {
		t.Errorf("without a queue: %q, %q", got, text)
	}
	if _, err := os.Stat(path); err == nil {
		t.Error("to look made a queue")
	}
	l, err := jobs.OpenLocal(path)
	if err != nil {
		t.Fatal(err)
	}
	first, err := l.Submit(t.Context(), submission(t, filepath.Join(dir, "runs"), "first", 0))
	if err == nil {
		err = l.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
	if got, text := resting(), Beside(t.Context(), "1"); !slices.Equal(got, []string{first.Dir}) || text != "" {
		t.Errorf("without a daemon: %q, %q", got, text)
	}
	reserved := func(dir string, want int) {
		t.Helper()
		if got := Reserved(t.Context(), "1")(dir); got != want {
			t.Errorf("%s is the folder of job %d, not %d", dir, got, want)
		}
	}
	reserved(first.Dir, first.ID)
	reserved(first.Dir+"-2", 0)
	traced := func(id int, want error) {
		t.Helper()
		for end := time.Now().Add(30 * time.Second); ; time.Sleep(5 * time.Millisecond) {
			x, err := TraceStep(t.Context(), "1", id)
			if want == nil && errors.Is(err, berth.ErrNoStep) && time.Now().Before(end) { // its training is about to open
				continue
			}
			if !errors.Is(err, want) || err == nil && len(x.Measured.Spans) == 0 {
				t.Errorf("a step of job %d: %+v, %v", id, x, err)
			}
			return
		}
	}
	traced(first.ID, berth.ErrNoStep)
	if err := os.RemoveAll(filepath.Dir(first.Dir)); err != nil {
		t.Fatal(err)
	}
	reserved(first.Dir, first.ID)
	d, err := jobs.Open(jobs.Options{Queue: path, Devices: configs.Devices{Use: "cpu:1"}})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 2)
	go func() { ended <- d.Run(ctx) }()
	go func() { ended <- socket.Serve(ctx, socket.Path(path), d, socket.ThisProgram("1"), func(bool) {}) }()
	defer func() {
		stop()
		for range cap(ended) {
			if err := <-ended; err != nil {
				t.Error(err)
			}
		}
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	}()
	await := func(id int, s queue.State, dirs ...string) {
		t.Helper()
		for end := time.Now().Add(30 * time.Second); ; time.Sleep(5 * time.Millisecond) {
			v, err := d.View(id)
			got := resting()
			if err == nil && v.State == s && slices.Equal(got, dirs) {
				return
			}
			if err != nil || time.Now().After(end) {
				t.Fatalf("job %d is %s, %v; these wait: %q, not %q", id, v.State, err, got, dirs)
			}
		}
	}
	await(first.ID, queue.Running)
	traced(first.ID, nil)
	traced(first.ID+1, queue.ErrNoJob)
	second, err := d.Submit(t.Context(), submission(t, dir, "second", 1))
	if err != nil {
		t.Fatal(err)
	}
	await(second.ID, queue.Running, first.Dir) // it was suspended
	if list, err := Resting(t.Context(), "1"); err != nil || len(list) != 1 || list[0] != (overview.Resting{Job: first.ID, Dir: first.Dir}) {
		t.Errorf("a suspended job: %+v, %v", list, err)
	}
	if _, err := d.Want(first.ID, queue.Pause); err != nil {
		t.Fatal(err)
	}
	await(first.ID, queue.Paused, first.Dir)
	if list, err := Resting(t.Context(), "1"); err != nil || len(list) != 1 || list[0] != (overview.Resting{Job: first.ID, Dir: first.Dir, Paused: true}) {
		t.Errorf("a paused job: %+v, %v", list, err)
	}
	t.Chdir(dir)
	reserved("second", second.ID)
	if _, err := d.Want(second.ID, queue.Cancel); err != nil {
		t.Fatal(err)
	}
	await(second.ID, queue.Cancelled, first.Dir)
	reserved("second", 0)
	if text := Beside(t.Context(), "another version"); !strings.HasPrefix(text, fmt.Sprintf("trainer up (process %d) trains on this machine, too", os.Getpid())) {
		t.Errorf("beside a daemon: %q", text)
	}
}

// A lister lists the jobs of a queue as they are, and leaves the file of one without a daemon alone while it stands as it was.
func TestLister(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "q")
	t.Setenv(pathVariable, path)
	list := NewLister("1")
	if got := list.List(t.Context()); len(got) > 0 {
		t.Fatalf("without a queue: %v", got)
	}
	add := func(key string) {
		t.Helper()
		l, err := jobs.OpenLocal(path)
		if err != nil {
			t.Fatal(err)
		}
		_, err = l.Submit(t.Context(), submission(t, filepath.Join(dir, "runs"), key, 0))
		if err := errors.Join(err, l.Close()); err != nil {
			t.Fatal(err)
		}
	}
	for n := 1; n <= 2; n++ {
		add(fmt.Sprint("job-", n))
		if got := list.List(t.Context()); len(got) != n || got[n-1].State != "waiting" || got[n-1].Where != jobs.WaitsForDaemon {
			t.Fatalf("of %d jobs: %+v", n, got)
		}
	}
	before, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	got := list.List(t.Context())
	if after, err := os.Stat(path); len(got) != 2 || err != nil || !after.ModTime().Equal(before.ModTime()) { // to open it changes it
		t.Errorf("a file that stands as it was is opened: %+v, %v", got, err)
	}
}

// While a daemon takes connections and does not answer, a lister has the jobs as it knew them, and says so of those that are not
// over. Other commands are told, too.
func TestDaemonHangs(t *testing.T) {
	if err := socket.Supported(); err != nil {
		t.Skip(err)
	}
	dir := t.TempDir()
	path := filepath.Join(dir, "q")
	t.Setenv(pathVariable, path)
	l, err := jobs.OpenLocal(path)
	if err != nil {
		t.Fatal(err)
	}
	_, err = l.Submit(t.Context(), submission(t, filepath.Join(dir, "runs"), "first", 0))
	if err := errors.Join(err, l.Close()); err != nil {
		t.Fatal(err)
	}
	list := NewLister("1")
	if got := list.List(t.Context()); len(got) != 1 {
		t.Fatalf("before: %+v", got)
	}
	if err := os.Chmod(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	door, err := net.Listen("unix", socket.Path(path))
	if err != nil {
		t.Skip(err)
	}
	defer door.Close()
	const text = "the daemon did not answer within 1 s: "
	if got := list.List(t.Context()); len(got) != 1 || got[0].State != "waiting" || !strings.HasPrefix(got[0].Where, "not known now: "+text) {
		t.Errorf("a daemon that hangs: %+v", got)
	}
	_, err = list.Memory(t.Context())
	_, other := Resting(t.Context(), "1")
	for _, err := range []error{err, other} {
		if err == nil || !strings.HasPrefix(err.Error(), text) || strings.Contains(err.Error(), "deadline") {
			t.Errorf("a daemon that hangs: %v", err)
		}
	}
}
