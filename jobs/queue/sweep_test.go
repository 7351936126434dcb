package queue

import (
	"errors"
	"fmt"
	"path/filepath"
	"testing"
)

// TestSweeps: what is wanted of a sweep is wanted of its trials, also of one that comes later. They go with it.
func TestSweeps(t *testing.T) {
	path := filepath.Join(t.TempDir(), "queue.db")
	q := opened(t, path)
	s := submission("sweep")
	s.Sweep, s.Retries, s.Priority = &Sweep{Text: "sweep: …"}, 3, 1
	sweep, err := q.Submit(s)
	if err != nil {
		t.Fatal(err)
	}
	trial := func(n int) int {
		s := submission(fmt.Sprint("sweep/", n))
		s.Trial = &Trial{Sweep: sweep.ID, Number: n, Settings: []Setting{{"optimizer.lr", "0.1"}}}
		j, err := q.Submit(s)
		if err != nil {
			t.Fatal(err)
		}
		return j.ID
	}
	states := func(q *Queue) (s string) {
		for _, j := range q.Jobs() {
			s += fmt.Sprintf("%d %s ", j.Priority, j.State)
		}
		return s
	}
	first := trial(1)
	want := func(w Wish, now string) {
		t.Helper()
		if _, err := q.Want(sweep.ID, w); err != nil {
			t.Fatal(err)
		}
		if got := states(q); got != now {
			t.Errorf("%s is wanted: %s; expected %s", w, got, now)
		}
	}
	want(Pause, "1 paused 1 paused ")
	second := trial(2)
	want(Pause, "1 paused 1 paused 1 paused ")
	want(Run, "1 waiting 1 waiting 1 waiting ")
	if j, err := q.Job(second); err != nil || j.Retries != 3 {
		t.Errorf("%+v, %v: expected the retries of the sweep", j, err)
	}
	if _, err := q.SetPriority(sweep.ID, 5); err != nil {
		t.Fatal(err)
	}

	// The first reaches its rung and goes on; the second reaches it and is out. A failed sweep is tried again.
	value := 0.5
	for _, id := range []int{first, second} {
		if _, err := q.Begin(id, []string{"cpu:0"}, false); err != nil {
			t.Fatal(err)
		}
		if err := q.Remove(sweep.ID); !errors.Is(err, ErrState) {
			t.Errorf("a sweep whose trial is open is removed: %v", err)
		}
		q.End(id, Result{Reached: &Reached{Value: &value, Step: 9, Steps: 90}})
	}
	if j, err := q.Promote(first, 1, 0.3); err != nil || j.Resting() {
		t.Errorf("%+v, %v", j, err)
	}
	if _, err := q.Promote(first, 2, 1); !errors.Is(err, ErrState) {
		t.Errorf("a trial goes on that does not rest: %v", err)
	}
	if _, err := q.Drop(second); err != nil {
		t.Fatal(err)
	}
	if _, err := q.Settle(sweep.ID, errors.New("no winner"), ""); err != nil {
		t.Fatal(err)
	}
	again := killed(t, path)
	if got := states(again); got != "5 failed 5 waiting 5 finished " {
		t.Errorf("in the file: %s", got)
	}
	if j, err := again.Job(second); err != nil || !j.Trial.Out || *j.Trial.Values[0] != value || j.Trial.Step != 9 || j.Trial.Settings[0].Key != "optimizer.lr" {
		t.Errorf("%+v, %v", j.Trial, err)
	}
	want(Run, "5 waiting 5 waiting 5 finished ")
	want(Cancel, "5 cancelled 5 cancelled 5 finished ")
	if err := q.Remove(sweep.ID); err != nil || len(q.Jobs()) != 0 || len(killed(t, path).Jobs()) != 0 {
		t.Errorf("%v, %v", err, q.Jobs())
	}
	s.Trial = &Trial{Sweep: sweep.ID, Number: 3}
	s.Sweep = nil
	if _, err := q.Submit(s); !errors.Is(err, ErrNoJob) {
		t.Errorf("a trial of a sweep that was removed: %v", err)
	}
}
