package jobs

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/berth-ml/berth"
	"github.com/berth-ml/berth/configs"
	"github.com/berth-ml/berth/jobs/queue"
)

// ahead submits a job with a priority.
func (r running) ahead(t *testing.T, dir string, priority int, config []byte) int {
	t.Helper()
	j, err := r.Submit(t.Context(), Submission{Key: fmt.Sprint(t.Name(), priority), Config: config, Parent: dir, Priority: priority})
	if err != nil {
		t.Fatal(err)
	}
	return j.ID
}

// steps waits until a job runs and has taken some.
func (r running) steps(t *testing.T, id int) {
	t.Helper()
	r.until(t, id, func(v View) bool { return v.State == queue.Running && v.Step > 2 })
}

// TestFinishOfMovedJobs: a daemon that is to finish ends only after a job that was suspended, and went on on another
// device meanwhile. It begins no other.
func TestFinishOfMovedJobs(t *testing.T) {
	dir := t.TempDir()
	d, err := Open(Options{Queue: filepath.Join(dir, "queue.db"), Devices: configs.Devices{Use: "cpu:2"}, Told: func(s string) { t.Log(s) }})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = d.Close() })
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Second)
	defer cancel()
	ended := make(chan error, 1)
	go func() { ended <- d.Run(ctx) }()
	r := running{d, cancel}
	endless := text(t, "train.epochs=100000")
	first := r.ahead(t, dir, 3, endless)
	config := text(t, "train.epochs=20", "seed=3")
	moved := r.ahead(t, dir, 1, config)
	r.steps(t, first)
	r.steps(t, moved)
	other := r.ahead(t, dir, 4, endless)
	r.steps(t, other)
	r.until(t, moved, func(v View) bool { return v.State == queue.Waiting })
	last := r.ahead(t, dir, 0, text(t, "train.epochs=1"))
	d.Finish()
	for _, id := range []int{first, other} { // on either device the suspended job could go on; the first is that of another job
		if _, err := d.Want(id, queue.Cancel); err != nil {
			t.Fatal(err)
		}
		if id == first {
			r.until(t, moved, func(v View) bool { return len(v.Attempts) == 2 })
		}
	}
	if err := <-ended; err != nil || ctx.Err() != nil {
		t.Fatal(err, ctx.Err())
	}
	v, err := d.View(moved)
	if err != nil || v.State != queue.Finished || hash(t, v.Dir) != alone(t, config) {
		t.Errorf("the job that was moved is %s after %d attempts, %v", v.State, len(v.Attempts), err)
	}
	if v, err := d.View(last); err != nil || v.State != queue.Waiting || len(v.Attempts) != 0 || v.Where != "the daemon begins no more jobs" {
		t.Errorf("the job that had not begun is %s (%s), %v", v.State, v.Where, err)
	}
}

// TestPauseWithinAnEvaluation: a job that was suspended within the evaluation after its last step is saved at once when
// somebody pauses it, though another one has all memory of the device. It goes on with that evaluation.
func TestPauseWithinAnEvaluation(t *testing.T) {
	dir := t.TempDir()
	config := text(t, "train.steps=40", "train.batch=7", "seed=1")
	var r running
	var once sync.Once
	inTheWay := func(s berth.Step) {
		if s.Step < 40 {
			return
		}
		once.Do(func() {
			r.ahead(t, dir, 5, text(t, "train.epochs=100000"))
			for aside := false; !aside; time.Sleep(time.Millisecond) {
				r.mu.Lock()
				aside = !r.open[1].runs()
				r.mu.Unlock()
			}
		})
	}
	d, err := Open(Options{
		Queue: filepath.Join(dir, "queue.db"), Devices: configs.Devices{Use: "cpu:1", Memory: configs.Memory{Bytes: 320 << 10}},
		Observe: func(_ io.Writer, run *berth.Run) *berth.Observer {
			if run.TotalSteps() == 40 {
				return &berth.Observer{Step: inTheWay}
			}
			return &berth.Observer{}
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = d.Close() })
	r = running{d, nil}
	id := r.submit(t, dir, "a", config)
	run(t, d)
	for end := time.Now().Add(20 * time.Second); len(d.Views()) < 2 && time.Now().Before(end); {
		time.Sleep(time.Millisecond)
	}
	r.steps(t, 2)
	v, err := d.View(id)
	if err != nil || v.State != queue.Waiting || v.Loss != nil {
		t.Fatalf("the job is %s and not within its evaluation: %v", v.State, err)
	}
	if _, err := d.Want(id, queue.Pause); err != nil {
		t.Fatal(err)
	}
	r.until(t, id, func(v View) bool { return v.State == queue.Paused })
	if v, err := d.View(2); err != nil || v.State != queue.Running {
		t.Fatalf("the job ahead is %s, %v", v.State, err)
	}
	for id, w := range map[int]queue.Wish{2: queue.Cancel, id: queue.Run} {
		if _, err := d.Want(id, w); err != nil {
			t.Fatal(err)
		}
	}
	v = r.await(t, id)
	if v.State != queue.Finished || len(v.Attempts) != 2 || hash(t, v.Dir) != alone(t, config) {
		t.Errorf("the job is %s after %d attempts", v.State, len(v.Attempts))
	}
}

// TestEndedOnce: who listens hears once of each job that is over, whatever is asked while it ends.
func TestEndedOnce(t *testing.T) {
	dir := t.TempDir()
	heard := make(chan int, 100)
	d, err := Open(Options{
		Queue: filepath.Join(dir, "queue.db"), Devices: configs.Devices{Use: "cpu:1"}, Ended: func(j queue.Job) { heard <- j.ID },
	})
	if err != nil {
		t.Fatal(err)
	}
	r := running{d, nil}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	ended := make(chan error, 1)
	go func() { ended <- d.Run(ctx) }()
	const jobs = 5
	for i := range jobs {
		id := r.submit(t, dir, fmt.Sprint(i), text(t, "train.epochs=5", "train.batch=64"))
		r.until(t, id, func(v View) bool { return v.Step > 2 }) // on a busy machine, it may have ended when this looks
		var asking sync.WaitGroup
		for range 8 {
			asking.Go(func() {
				for err := d.Remove(id); err != nil && !errors.Is(err, queue.ErrNoJob); err = d.Remove(id) {
				}
			})
		}
		asking.Wait()
	}
	cancel()
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	close(heard)
	times := map[int]int{}
	for id := range heard {
		times[id]++
	}
	for id := range jobs {
		if n := times[id+1]; n != 1 {
			t.Errorf("job %d has ended %d times", id+1, n)
		}
	}
}

// TestToldMayAsk: who is told what happens may ask the daemon then, and hears of each job in order.
func TestToldMayAsk(t *testing.T) {
	dir := t.TempDir()
	var d *Daemon
	var lines []string
	d, err := Open(Options{
		Queue: filepath.Join(dir, "queue.db"), Devices: configs.Devices{Use: "cpu:1"},
		Told: func(s string) { lines = append(lines, fmt.Sprint(s, " of ", len(d.Views()))) },
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
	if v, err := d.RunOnly(ctx, 1); err != nil || v.State != queue.Finished {
		t.Fatalf("the job is %s, %v", v.State, err)
	}
	if got, want := fmt.Sprint(lines), "[job 1 (digits) begins on cpu:0 of 1 job 1 (digits) finished of 1]"; got != want {
		t.Errorf("told: %s, expected %s", got, want)
	}
}

// TestSuspendedAtItsEnd: a job gives way within the evaluation of its test part, after its last step, too. It can be paused
// there, and has the weights and the result that it has alone.
func TestSuspendedAtItsEnd(t *testing.T) {
	dir := t.TempDir()
	config := text(t, "train.steps=40", "train.batch=16", "data.split={val: 0.01, test: 0.6}")
	var r running
	var once sync.Once
	inTheWay := func(b berth.Boundary) { // the test part is next
		if b.Step < 40 {
			return
		}
		once.Do(func() {
			r.ahead(t, dir, 5, text(t, "train.epochs=100000"))
			for aside := false; !aside; time.Sleep(time.Millisecond) {
				r.mu.Lock()
				aside = !r.open[1].runs()
				r.mu.Unlock()
			}
		})
	}
	d, err := Open(Options{
		Queue: filepath.Join(dir, "queue.db"), Devices: configs.Devices{Use: "cpu:1"},
		Observe: func(_ io.Writer, run *berth.Run) *berth.Observer {
			if run.TotalSteps() == 40 {
				return &berth.Observer{Boundary: inTheWay}
			}
			return &berth.Observer{}
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = d.Close() })
	r = running{d, nil}
	id := r.submit(t, dir, "a", config)
	run(t, d)
	r.until(t, id, func(v View) bool { return v.State == queue.Waiting && v.Step == 40 || v.State.Over() })
	r.steps(t, 2)
	if v, err := d.View(id); err != nil || v.State != queue.Waiting {
		t.Fatalf("the job is %s and not within its last evaluation: %v", v.State, err)
	}
	if _, err := d.Want(id, queue.Pause); err != nil {
		t.Fatal(err)
	}
	r.until(t, id, func(v View) bool { return v.State == queue.Paused || v.State.Over() })
	for id, w := range map[int]queue.Wish{2: queue.Cancel, id: queue.Run} {
		if _, err := d.Want(id, w); err != nil {
			t.Fatal(err)
		}
	}
	v := r.await(t, id)
	if v.State != queue.Finished || len(v.Attempts) != 2 || hash(t, v.Dir) != alone(t, config) {
		t.Errorf("the job is %s after %d attempts", v.State, len(v.Attempts))
	}
}
