package jobs

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/berth-ml/berth/configs"
	"github.com/berth-ml/berth/jobs/order"
	"github.com/berth-ml/berth/jobs/queue"
)

// killedQueue is the file that a daemon leaves that was killed while its first job ran. The
// second job waits.
func killedQueue(t *testing.T) (path string, suspect, waiting int) {
	t.Helper()
	return killedQueueOf(t, 1)
}

// killedQueueOf is that with a first job that takes so many devices.
func killedQueueOf(t *testing.T, takes int) (path string, suspect, waiting int) {
	t.Helper()
	dir := t.TempDir()
	q, err := queue.Open(filepath.Join(dir, "queue.db"))
	if err != nil {
		t.Fatal(err)
	}
	defer q.Close()
	submit := func(key string, count int) int {
		j, err := q.Submit(queue.Submission{
			Key: key, Name: key, Config: text(t, "train.epochs=1"), Dir: filepath.Join(dir, key),
			Needs: []order.Need{{Kind: "cpu", Count: count}},
		})
		if err != nil {
			t.Fatal(err)
		}
		return j.ID
	}
	suspect, waiting = submit("a", takes), submit("b", 1)
	if _, err := q.Begin(suspect, []string{"cpu:0"}, false); err != nil {
		t.Fatal(err)
	}
	left, err := os.ReadFile(filepath.Join(dir, "queue.db"))
	if err != nil {
		t.Fatal(err)
	}
	path = filepath.Join(dir, "left.db")
	if err := os.WriteFile(path, left, 0o600); err != nil {
		t.Fatal(err)
	}
	return path, suspect, waiting
}

func openCPU(t *testing.T, path string) *Daemon {
	t.Helper()
	d, err := Open(Options{Queue: path, Devices: configs.Devices{Use: "cpu:1"}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = d.Close() })
	return d
}

// TestRunOnly: a job that is to run alone does not keep the one of RunOnly from running, and one
// that is over ends RunOnly at once.
func TestRunOnly(t *testing.T) {
	path, suspect, waiting := killedQueue(t)
	d := openCPU(t, path)
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	if v, err := d.RunOnly(ctx, waiting); err != nil || v.State != queue.Finished {
		t.Fatalf("beside a suspect job: %s (%s), %v", v.State, v.Where, err)
	}
	if _, err := d.Want(suspect, queue.Cancel); err != nil {
		t.Fatal(err)
	}
	if v, err := d.RunOnly(ctx, suspect); err != nil || v.State != queue.Cancelled || ctx.Err() != nil {
		t.Errorf("a cancelled job: %s, %v, %v", v.State, err, ctx.Err())
	}
}

// TestSuspectWithoutDevices: a job that is to run alone and does not fit on the devices that there are keeps
// nobody waiting.
func TestSuspectWithoutDevices(t *testing.T) {
	path, suspect, waiting := killedQueueOf(t, 2)
	d := openCPU(t, path)
	run(t, d)
	for end := time.Now().Add(20 * time.Second); ; time.Sleep(time.Millisecond) {
		if v, err := d.View(waiting); err != nil || v.State == queue.Finished {
			break
		} else if time.Now().After(end) {
			t.Fatalf("the other job is %s: %s", v.State, v.Where)
		}
	}
	if v, err := d.View(suspect); err != nil || !strings.Contains(v.Where, "there are fewer") {
		t.Errorf("the suspect job: %s (%s), %v", v.State, v.Where, err)
	}
}

// TestEnded: who listens hears of each job that is over, also of one that never began, and of one that has ended the
// process, whoever had the queue since then.
func TestEnded(t *testing.T) {
	path, blamed, waiting := killedQueue(t)
	q, err := queue.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := q.Begin(blamed, []string{"cpu:0"}, true); err != nil { // alone, for the second time
		t.Fatal(err)
	}
	if err := q.Close(); err != nil {
		t.Fatal(err)
	}
	forMeanwhile(t, path, waiting)
	heard := make(chan queue.Job, 4)
	d, err := Open(Options{Queue: path, Devices: configs.Devices{Use: "cpu:1"}, Ended: func(j queue.Job) { heard <- j }})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := d.Want(waiting, queue.Pause); err != nil {
		t.Fatal(err)
	}
	if _, err := d.Want(waiting, queue.Cancel); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	d.Finish()
	if err := errors.Join(d.Run(ctx), d.Close()); err != nil {
		t.Fatal(err)
	}
	close(heard)
	got := map[int]queue.State{}
	for j := range heard {
		got[j.ID] = j.State
	}
	if len(got) != 2 || got[blamed] != queue.Failed || got[waiting] != queue.Cancelled {
		t.Errorf("ended: %v", got)
	}
}

// forMeanwhile opens a queue as a command does that looks at it, and as one that runs one job alone.
func forMeanwhile(t *testing.T, path string, only int) {
	t.Helper()
	l, err := OpenLocal(path)
	if err == nil {
		err = l.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
	d, err := OpenFor(only, Options{Queue: path, Ended: func(j queue.Job) { t.Errorf("job %d is %s, for job %d alone", j.ID, j.State, only) }})
	if err != nil {
		t.Fatal(err)
	}
	ended, end := context.WithCancel(t.Context())
	end()
	_, err = d.RunOnly(ended, only)
	if err := errors.Join(err, d.Close()); err != nil {
		t.Fatal(err)
	}
}

// run runs a daemon until the test ends.
func run(t *testing.T, d *Daemon) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- d.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}
