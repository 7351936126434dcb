package queue

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.etcd.io/bbolt"
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
		if err := q.Remove(sweep.ID); !errors.Is(err, ErrState) || !strings.Contains(err.Error(), fmt.Sprintf("job %d is open", sweep.ID)) {
			t.Errorf("a sweep whose trial is open is removed: %v", err)
		}
		q.End(id, Result{Reached: &Reached{Value: &value, Step: 9, Steps: 90}})
	}
	if list, err := q.Promote(Promotion{Job: first, Rung: 1, Share: 0.3}); err != nil || list[0].Resting() {
		t.Errorf("%+v, %v", list, err)
	}
	if _, err := q.Promote(Promotion{Job: first, Rung: 2, Share: 1}); !errors.Is(err, ErrState) {
		t.Errorf("a trial goes on that does not rest: %v", err)
	}
	if _, err := q.Drop(second, first); !errors.Is(err, ErrState) {
		t.Errorf("one does not rest: %v", err)
	}
	if _, err := q.Drop(second); err != nil {
		t.Fatal(err)
	}
	if _, err := q.Settle(sweep.ID, nil, errors.New("no winner"), 1, ""); err != nil {
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

// TestSubmitAll: several jobs are queued in one transaction, all of them or none.
func TestSubmitAll(t *testing.T) {
	path := filepath.Join(t.TempDir(), "queue.db")
	q := opened(t, path)
	commits := 0
	defer func(was func(*bbolt.DB, func(*bbolt.Tx) error) error) { commit = was }(commit)
	commit = func(db *bbolt.DB, do func(*bbolt.Tx) error) error {
		commits++
		return db.Update(do)
	}
	if _, err := q.Submit(submission("b")); err != nil {
		t.Fatal(err)
	}
	commits = 0
	list, err := q.SubmitAll([]Submission{submission("a"), submission("b"), submission("c")})
	if err != nil || commits != 1 || list[0].ID != 2 || list[1].ID != 1 || list[2].ID != 3 || len(q.Jobs()) != 3 {
		t.Errorf("%d commits, %+v, %v", commits, list, err)
	}
	other := submission("a")
	other.Config = []byte("other")
	if _, err := q.SubmitAll([]Submission{submission("d"), other}); !errors.Is(err, ErrKey) || len(q.Jobs()) != 3 {
		t.Errorf("%v, and there are %d jobs", err, len(q.Jobs()))
	}
	if got := len(killed(t, path).Jobs()); got != 3 {
		t.Errorf("the file has %d jobs", got)
	}
}

// TestAs: a job that was done before is finished at once, and its folder is nobody's; a trial of a sweep goes on in a folder of its
// own, or as another job again. All of it is in the file.
func TestAs(t *testing.T) {
	path := filepath.Join(t.TempDir(), "queue.db")
	q := opened(t, path)
	submit := func(key string, change func(*Submission)) Job {
		t.Helper()
		s := submission(key)
		change(&s)
		j, err := q.Submit(s)
		if err != nil {
			t.Fatal(err)
		}
		return j
	}
	saved := Saved{ID: 7, Time: time.Now().UTC().Round(0)}
	job := submit("a", func(s *Submission) { s.As = &Result{Complete: true, As: 40, Dir: "/runs/x", Saved: saved} })
	if job.State != Finished || job.As != 40 || job.Dir != "/runs/x" || job.Saved != saved || job.Code() != 0 {
		t.Errorf("%+v", job)
	}
	sweep := submit("s", func(s *Submission) { s.Sweep = &Sweep{Text: "sweep"} })
	value := 0.25
	at := func(step int, complete bool) *Result {
		return &Result{As: 40, Dir: "/runs/x", Complete: complete, Reached: &Reached{Value: &value, Step: step, Steps: 90, Boundary: 5}}
	}
	var trials []int
	for _, key := range []string{"t", "u"} {
		trials = append(trials, submit(key, func(s *Submission) { s.Trial, s.As = &Trial{Sweep: sweep.ID, Number: 1}, at(10, false) }).ID)
	}
	failed := submit("x", func(s *Submission) { s.Dir = "/runs/x" })
	if _, err := q.Begin(failed.ID, []string{"cpu:0"}, false); err != nil {
		t.Fatal(err)
	}
	q.End(failed.ID, Result{Err: errors.New("no")})
	if _, err := q.Want(failed.ID, Run); err != nil {
		t.Errorf("the folder is taken by trials that rest: %v", err)
	}
	if _, err := q.Promote(Promotion{Job: trials[0], Rung: 1, Dir: "/runs/own"}, Promotion{Job: trials[1], Rung: 1, Dir: "/runs/own2", As: at(90, true)}); err != nil {
		t.Fatal(err)
	}
	again := killed(t, path)
	own, err := again.Job(trials[0])
	if err != nil || own.As != 0 || own.Dir != "/runs/own" || own.State != Waiting || own.Resting() {
		t.Errorf("%+v, %v", own, err)
	}
	as, err := again.Job(trials[1])
	if err != nil || as.As != 40 || as.Dir != "/runs/x" || as.State != Finished || len(as.Trial.Values) != 2 || as.Trial.At[1] != 90 || !as.Trial.Ended || as.Trial.Boundary != 5 {
		t.Errorf("%+v, %v", as.Trial, err)
	}
	if _, err := again.Give(trials[0], "/runs/own"); !errors.Is(err, ErrState) {
		t.Errorf("a trial of its own gives weights: %v", err)
	}
	if _, err := again.Give(trials[1], "/runs/own2"); err != nil {
		t.Fatal(err)
	}
	gives, err := again.Job(trials[1])
	if err != nil || gives.As != 0 || gives.Dir != "/runs/own2" || gives.State != Waiting || gives.Resting() || gives.Trial.Rung != 1 || len(gives.Trial.Values) != 1 || len(gives.Trial.At) != 1 || gives.Trial.Ended || !gives.Trial.Gives {
		t.Errorf("%+v, %v", gives.Trial, err)
	}
}

// TestFollow: the recipe of a job is that of its attempts, if they have the same.
func TestFollow(t *testing.T) {
	q := opened(t, filepath.Join(t.TempDir(), "queue.db"))
	type attempt struct {
		recipe string
		fresh  bool
	}
	for i, c := range []struct {
		submitted string
		attempts  []attempt
		want      string
	}{
		{"a", []attempt{{"a", true}}, "a"},
		{"a", []attempt{{"b", true}}, "b"},
		{"", []attempt{{"b", true}}, "b"},
		{"a", []attempt{{"a", true}, {"a", false}}, "a"},
		{"a", []attempt{{"a", true}, {"b", false}}, ""},
		{"a", []attempt{{"b", true}, {"a", false}}, ""},
		{"a", []attempt{{"b", true}, {"a", true}}, "a"},
		{"a", []attempt{{"a", true}, {"b", false}, {"a", false}}, ""},
		{"a", []attempt{{"a", false}}, ""}, // somebody else's checkpoint
		{"a", []attempt{{"", true}}, ""},
	} {
		s := submission(fmt.Sprint(i))
		s.Recipe = c.submitted
		j, err := q.Submit(s)
		if err != nil {
			t.Fatal(err)
		}
		for _, a := range c.attempts {
			if _, err := q.Begin(j.ID, []string{"cpu:0"}, false); err != nil {
				t.Fatal(err)
			}
			q.Follow(j.ID, a.recipe, "weights", a.fresh)
			q.End(j.ID, Result{})
		}
		if j, err = q.Job(j.ID); err != nil || j.Recipe != c.want {
			t.Errorf("%+v: recipe %q, %v", c, j.Recipe, err)
		}
		if j.Weights != "weights" {
			t.Errorf("%+v: it began with %q", c, j.Weights)
		}
	}
}

// TestRemoveNeededTrial: a trial of a sweep that another job is behind stays: it may be the best one.
func TestRemoveNeededTrial(t *testing.T) {
	q := opened(t, filepath.Join(t.TempDir(), "queue.db"))
	submit := func(key string, change func(*Submission)) int {
		t.Helper()
		s := submission(key)
		change(&s)
		j, err := q.Submit(s)
		if err != nil {
			t.Fatal(err)
		}
		return j.ID
	}
	sweep := submit("sweep", func(s *Submission) { s.Sweep = &Sweep{Text: "sweep: …"} })
	trial := submit("sweep/1", func(s *Submission) { s.Trial = &Trial{Sweep: sweep, Number: 1} })
	behind := submit("behind", func(s *Submission) { s.Inputs = []Input{{sweep, AsInit}} })
	if err := q.Remove(trial); !errors.Is(err, ErrState) || !strings.Contains(err.Error(), "cancel it first") {
		t.Errorf("a trial is removed whose sweep job %d needs: %v", behind, err)
	}
	if _, err := q.Want(behind, Cancel); err != nil {
		t.Fatal(err)
	}
	if err := q.Remove(trial); err != nil {
		t.Error(err)
	}
}
