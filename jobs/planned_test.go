package jobs

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/berth-ml/berth/configs"
	"github.com/berth-ml/berth/jobs/queue"
)

// toPlan is a queue with a pipeline whose step base is to be planned next, and another job that has not begun. in changes it
// as a daemon does that is killed then.
func toPlan(t *testing.T, in func(q *queue.Queue, base, other int)) (dir string, pipeline, base, other int) {
	t.Helper()
	dir = t.TempDir()
	d := start(t, dir, "cpu:1")
	d.mu.Lock()
	d.planned = &planned{0, func(error) {}}
	d.mu.Unlock()
	s := pipelineIn(t, dir, "")
	s.Steps = s.Steps[1:3]
	j, err := d.Submit(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	if v := d.await(t, stepID(t, d.Views(), "words")); v.State != queue.Finished {
		t.Fatal(v.Where)
	}
	pipeline, base = j.ID, stepID(t, d.Views(), "base")
	d.stop()
	submitTo(t, dir, [][]byte{text(t, "train.epochs=2")})
	other = base + 1
	q, err := queue.Open(filepath.Join(dir, "queue.db"))
	if err != nil {
		t.Fatal(err)
	}
	in(q, base, other)
	if err := q.Close(); err != nil {
		t.Fatal(err)
	}
	return dir, pipeline, base, other
}

// happened is when something happened to a job.
func happened(t *testing.T, j *queue.Job, what string) time.Time {
	t.Helper()
	for _, e := range j.Events {
		if strings.Contains(e.What, what) {
			return e.At
		}
	}
	t.Fatalf("job %d: nothing like %q happened: %v", j.ID, what, j.Events)
	return time.Time{}
}

// TestKilledWhilePlanned: a job that was planned when the process was killed is planned alone, and one that was so alone has
// failed, whoever opened the queue since then. The others finish. A job that runs alone is not beside one that is planned.
func TestKilledWhilePlanned(t *testing.T) {
	plan := func(t *testing.T, q *queue.Queue, id int, alone bool) {
		t.Helper()
		if _, err := q.Plan(id, alone); err != nil {
			t.Fatal(err)
		}
	}
	t.Run("once", func(t *testing.T) {
		dir, pipeline, base, other := toPlan(t, func(q *queue.Queue, base, _ int) { plan(t, q, base, false) })
		d := start(t, dir, "cpu:2")
		planned, ran := d.await(t, base), d.await(t, other)
		if v := d.await(t, pipeline); v.State != queue.Finished || ran.State != queue.Finished {
			t.Fatalf("the pipeline is %s: %s; the other job is %s: %s", v.State, v.Where, ran.State, ran.Where)
		}
		if began := ran.Attempts[0].Began; began.Before(planned.Ready) {
			t.Errorf("a job began at %v, and the suspect one was planned until %v", began, planned.Ready)
		}
	})
	t.Run("twice", func(t *testing.T) {
		dir, pipeline, base, other := toPlan(t, func(q *queue.Queue, base, _ int) { plan(t, q, base, true) })
		l, err := OpenLocal(filepath.Join(dir, "queue.db"))
		if err != nil {
			t.Fatal(err)
		}
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
		ended := make(chan int, 9)
		d := startWith(t, Options{Queue: filepath.Join(dir, "queue.db"), Devices: configs.Devices{Use: "cpu:2"}, Ended: func(j queue.Job) { ended <- j.ID }})
		for <-ended != base { // the pipeline, too, and in any order: each call goes by itself
		}
		if v := d.await(t, pipeline); v.State != queue.Failed || !strings.Contains(v.Where, "for the second time while this job was planned") {
			t.Errorf("the pipeline is %s: %s", v.State, v.Where)
		}
		if v := d.await(t, other); v.State != queue.Finished {
			t.Errorf("the other job is %s: %s", v.State, v.Where)
		}
		if _, err := d.Want(base, queue.Run); err != nil {
			t.Fatal(err)
		}
		if v := d.await(t, pipeline); v.State != queue.Finished {
			t.Errorf("tried again, the pipeline is %s: %s", v.State, v.Where)
		}
	})
	t.Run("another ran", func(t *testing.T) {
		dir, pipeline, base, other := toPlan(t, func(q *queue.Queue, _, other int) {
			if _, err := q.Begin(other, []string{"cpu:0"}, false); err != nil {
				t.Fatal(err)
			}
		})
		d := start(t, dir, "cpu:2")
		if v := d.await(t, pipeline); v.State != queue.Finished {
			t.Fatalf("the pipeline is %s: %s", v.State, v.Where)
		}
		planned, ran := d.await(t, base), d.await(t, other)
		if saved := happened(t, &ran.Job, "it has saved, and"); planned.Ready.Before(saved) {
			t.Errorf("a job was planned at %v, and the suspect one ran alone until %v", planned.Ready, saved)
		}
	})
	t.Run("submitted beside", func(t *testing.T) {
		dir, _, base, _ := toPlan(t, func(*queue.Queue, int, int) {})
		d, err := Open(Options{Queue: filepath.Join(dir, "queue.db"), Devices: configs.Devices{Use: "cpu:1"}})
		if err != nil {
			t.Fatal(err)
		}
		plan(t, d.queue, base, true)
		if _, err := d.Submit(t.Context(), Submission{Key: "beside", Config: text(t), Parent: dir}); err != nil {
			t.Fatal(err)
		}
		if err := d.Close(); err != nil {
			t.Fatal(err)
		}
		l, err := OpenLocal(filepath.Join(dir, "queue.db"))
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		if v, err := l.View(base); err != nil || v.State != queue.Waiting || !v.Suspect {
			t.Errorf("a job that was planned beside a submission is %s: %s, %v", v.State, v.Where, err)
		}
	})
}
