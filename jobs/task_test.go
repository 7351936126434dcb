package jobs

import (
	"context"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/berth-ml/berth"
	"github.com/berth-ml/berth/configs"
	"github.com/berth-ml/berth/internal/testall"
	"github.com/berth-ml/berth/jobs/order"
	"github.com/berth-ml/berth/jobs/queue"
)

// TestStoodAndProceeds: a job that goes on the moment it stands still is running in the queue, too: the
// later of the two is written last.
func TestStoodAndProceeds(t *testing.T) {
	testall.Long(t)
	dir := t.TempDir()
	d := openCPU(t, filepath.Join(dir, "queue.db"))
	j, err := d.Submit(t.Context(), Submission{Key: "a", Config: text(t), Parent: dir})
	if err != nil {
		t.Fatal(err)
	}
	if j, err = d.queue.Begin(j.ID, []string{"cpu:0"}, false); err != nil {
		t.Fatal(err)
	}
	c, err := configs.Parse("digits", text(t), configs.Overlay{})
	if err != nil {
		t.Fatal(err)
	}
	run, err := berth.Open(t.Context(), c, berth.OpenOptions{Devices: d.owned})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = run.Close() })
	x := newTask(d, j, []string{"cpu:0"})
	x.open(run)
	id, over, asked := j.ID, make(chan struct{}), make(chan struct{})
	go func() { // requests meanwhile keep the queue busy
		defer close(asked)
		for i := 0; ; i++ {
			select {
			case <-over:
				return
			default:
				_, _ = d.SetPriority(id, i)
			}
		}
	}()
	defer func() { close(over); <-asked }()
	for i := range 60 {
		x.note(x.suspend)
		for stood := false; !stood; {
			x.note(func() {
				if stood = x.stands(); stood {
					x.proceed()
				}
			})
		}
		d.tasks.Wait()
		if j, err = d.queue.Job(id); err != nil || j.State != queue.Running {
			t.Fatalf("after suspension %d, the job runs, and is %s in the queue: %v", i+1, j.State, err)
		}
	}
}

// TestCancelledAtItsEnd: a job that has taken its last step when somebody cancels it is finished.
func TestCancelledAtItsEnd(t *testing.T) {
	dir := t.TempDir()
	var d *Daemon
	cancelled := func(b berth.Boundary) {
		if v, err := d.View(1); err != nil || b.Step < v.Steps {
			return
		}
		if _, err := d.Want(1, queue.Cancel); err != nil {
			t.Error(err)
		}
		for v, err := d.View(1); err == nil && v.Where != "saving"; v, err = d.View(1) {
			time.Sleep(time.Millisecond)
		}
	}
	d, err := Open(Options{
		Queue: filepath.Join(dir, "queue.db"), Devices: configs.Devices{Use: "cpu:1"},
		Observe: func(io.Writer, *berth.Run) *berth.Observer { return &berth.Observer{Boundary: cancelled} },
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = d.Close() })
	if _, err := d.Submit(t.Context(), Submission{Key: "a", Config: text(t, "train.epochs=1"), Parent: dir}); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	v, err := d.RunOnly(ctx, 1)
	if err != nil || v.State != queue.Finished {
		t.Errorf("the job is %s, %v", v.State, err)
	}
	hash(t, v.Dir) // it has its report
}

// TestPanic: a job that panics fails at once, with where in its log, and others go on.
func TestPanic(t *testing.T) {
	dir := t.TempDir()
	jobs := 0
	d, err := Open(Options{
		Queue: filepath.Join(dir, "queue.db"), Devices: configs.Devices{Use: "cpu:1"},
		Observe: func(io.Writer, *berth.Run) *berth.Observer {
			if jobs++; jobs > 1 {
				return &berth.Observer{}
			}
			return &berth.Observer{Boundary: func(berth.Boundary) { panic("bad observer") }}
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = d.Close() })
	for _, key := range []string{"a", "b"} {
		s := Submission{Key: key, Config: text(t, "train.epochs=1"), Parent: dir, Retries: 2}
		if _, err := d.Submit(t.Context(), s); err != nil {
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	v, err := d.RunOnly(ctx, 1)
	if err != nil || v.State != queue.Failed || len(v.Attempts) != 1 || !strings.Contains(v.Failure(), "bad observer") {
		t.Errorf("the job is %s: %+v, %v", v.State, v.Attempts, err)
	}
	log, err := os.ReadFile(filepath.Join(v.Dir, LogName))
	if err != nil || !strings.Contains(string(log), "task_test.go:") {
		t.Errorf("its log does not say where it panicked: %s, %v", log, err)
	}
	if v, err = d.RunOnly(ctx, 2); err != nil || v.State != queue.Finished {
		t.Errorf("the other job is %s, %v", v.State, err)
	}
}

// retrySoon shortens the wait after failures.
func retrySoon(t *testing.T) {
	t.Helper()
	was := retryAfter
	retryAfter = 500 * time.Millisecond
	t.Cleanup(func() { retryAfter = was })
}

// TestRetries: a failure that may not come again is tried again, after a while and as often as is asked for; one that
// follows from the config is not.
func TestRetries(t *testing.T) {
	retrySoon(t)
	dir := t.TempDir()
	d := start(t, dir, "cpu:1")
	submit := func(key string, config []byte) View {
		path := filepath.Join(dir, key)
		if err := os.MkdirAll(path, 0o777); err != nil {
			t.Fatal(err)
		}
		if key == "again" { // a run folder without its place, until the second attempt is over
			if err := os.Remove(path); err != nil {
				t.Fatal(err)
			}
			if err := os.Symlink(filepath.Join(dir, "no", "folder"), path); err != nil {
				t.Fatal(err)
			}
		}
		j, err := d.queue.Submit(queue.Submission{
			Key: key, Name: key, Config: config, Dir: path, Retries: 2, Needs: []order.Need{{Kind: "cpu", Count: 1}},
		})
		if err != nil {
			t.Fatal(err)
		}
		d.wake()
		if key == "again" {
			d.until(t, j.ID, func(v View) bool { return strings.HasPrefix(v.Where, "begins again in 1 s: ") && v.Retries == 0 })
			if err := os.Remove(path); err != nil {
				t.Fatal(err)
			}
		}
		return d.await(t, j.ID)
	}
	v := submit("again", text(t, "train.epochs=1"))
	if v.State != queue.Finished || len(v.Attempts) != 3 {
		t.Errorf("the job is %s: %+v", v.State, v.Attempts)
	}
	for i := 1; i < len(v.Attempts); i++ {
		if rest := v.Attempts[i].Began.Sub(v.Attempts[i-1].Ended); rest < retryAfter {
			t.Errorf("attempt %d began %v after the one before", i+1, rest)
		}
	}
	for key, config := range map[string][]byte{"not finite": text(t, "optimizer.lr=1e38"), "usage": []byte("model: none")} {
		if v := submit(key, config); v.State != queue.Failed || len(v.Attempts) != 1 {
			t.Errorf("%s: the job is %s: %+v", key, v.State, v.Attempts)
		}
	}
}

// until waits for a view of a job.
func (r running) until(t *testing.T, id int, wanted func(View) bool) {
	t.Helper()
	for end := time.Now().Add(30 * time.Second); ; time.Sleep(time.Millisecond) {
		v, err := r.View(id)
		switch {
		case err != nil:
			t.Fatal(err)
		case wanted(v):
			return
		case time.Now().After(end):
			t.Fatalf("job %d is %s (%s): %+v", id, v.State, v.Where, v.Attempts)
		}
	}
}

// TestSuspendedLate: a job that is suspended and goes on again at once takes further steps, though the run is told
// to stand still only after it was told to go on.
func TestSuspendedLate(t *testing.T) {
	dir := t.TempDir()
	d := start(t, dir, "cpu:1")
	id := d.submit(t, dir, "a", text(t, "train.epochs=20000"))
	step := func() (n int) {
		v, err := d.View(id)
		if err != nil {
			t.Fatal(err)
		}
		return v.Step
	}
	until := func(n int) {
		for end := time.Now().Add(20 * time.Second); step() < n; time.Sleep(time.Millisecond) {
			if time.Now().After(end) {
				t.Fatalf("it stands at step %d", step())
			}
		}
	}
	until(3)
	for range 20 {
		d.mu.Lock()
		x := d.open[id]
		x.suspend()
		x.proceed()
		d.mu.Unlock()
		until(step() + 3)
	}
}
