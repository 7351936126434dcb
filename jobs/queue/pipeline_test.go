package queue

import (
	"errors"
	"fmt"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"go.etcd.io/bbolt"
)

// pipeline submits a pipeline of three steps: b is behind a and job 1, and c behind b.
func pipeline(t testing.TB, q *Queue) (Job, error) {
	t.Helper()
	s := submission("p")
	s.Pipeline, s.Priority, s.Retries = true, 2, 3
	steps := []StepSubmission{{Submission: submission("p/b"), Name: "b"}, {Submission: submission("p/a"), Name: "a"}, {Submission: submission("p/c"), Name: "c"}}
	steps[0].Of, steps[0].Inputs = []StepInput{{1, AsTokenizer}}, []Input{{Job: 1}}
	steps[0].Unplanned = &Unplanned{Set: []string{"data.tokenizer=t.json"}}
	steps[2].Of = []StepInput{{0, AsInit}}
	return q.SubmitPipeline(s, steps)
}

func states(q *Queue) string {
	var list []string
	for _, j := range q.Jobs() {
		list = append(list, fmt.Sprintf("%d %s", j.ID, j.State))
	}
	return strings.Join(list, ", ")
}

// TestPipelines: a pipeline is there with all its steps or not at all, and what is wanted of it is wanted of them.
func TestPipelines(t *testing.T) {
	path := filepath.Join(t.TempDir(), "queue.db")
	q := opened(t, path)
	first := submitted(t, q, "first")
	real, full := commit, errors.New("the disk is full")
	commit = func(db *bbolt.DB, do func(*bbolt.Tx) error) error {
		return real(db, func(tx *bbolt.Tx) error { return errors.Join(do(tx), full) })
	}
	_, err := pipeline(t, q)
	commit = real
	if !errors.Is(err, full) || states(q) != "1 waiting" || q.Has("p") || q.Has("p/a") {
		t.Errorf("a pipeline that the disk does not take: %v, %s", err, states(q))
	}
	p, err := pipeline(t, q)
	if err != nil {
		t.Fatal(err)
	}
	if again, err := pipeline(t, q); err != nil || again.ID != p.ID || len(q.Jobs()) != 5 {
		t.Errorf("sent again with its key: job %d, %v, %s", again.ID, err, states(q))
	}
	var inputs [][]Input
	for _, j := range killed(t, path).Jobs()[2:] {
		inputs = append(inputs, j.Inputs)
		if j.Lead() != p.ID || j.Priority != 2 || j.Retries != 3 {
			t.Errorf("step %+v", j)
		}
	}
	b, a, c := p.ID+1, p.ID+2, p.ID+3
	if want := [][]Input{{{Job: first}, {a, AsTokenizer}}, nil, {{b, AsInit}}}; !reflect.DeepEqual(inputs, want) {
		t.Errorf("inputs %v, expected %v", inputs, want)
	}
	want := func(id int, w Wish, now string) {
		t.Helper()
		if _, err := q.Want(id, w); err != nil {
			t.Fatal(err)
		}
		if got := states(q); got != now {
			t.Errorf("%s is wanted of job %d: %s; expected %s", w, id, got, now)
		}
	}
	want(p.ID, Pause, "1 waiting, 2 paused, 3 paused, 4 paused, 5 paused")
	want(p.ID, Run, "1 waiting, 2 waiting, 3 waiting, 4 waiting, 5 waiting")

	// A step that has failed, and the pipeline with it: both go on by the step. So does one that is behind it.
	later := submission("later")
	later.Pipeline = true
	after := StepSubmission{Submission: submission("later/x"), Name: "x"}
	after.Inputs = []Input{{Job: p.ID}}
	l, err := q.SubmitPipeline(later, []StepSubmission{after})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := q.Refuse(a, errors.New("no text"), 2); err != nil {
		t.Fatal(err)
	}
	for _, id := range []int{p.ID, l.ID} {
		if _, err := q.Settle(id, []int{a}, errors.New("a failed"), 1, ""); err != nil {
			t.Fatal(err)
		}
	}
	if j := state(t, q, a); j.Code() != 2 || j.Failure() != "no text" {
		t.Errorf("%+v", j.Attempts)
	}
	want(a, Run, "1 waiting, 2 waiting, 3 waiting, 4 waiting, 5 waiting, 6 waiting, 7 waiting")
	if _, err := q.Settle(p.ID, []int{a}, errors.New("a failed"), 1, ""); !errors.Is(err, ErrState) {
		t.Errorf("a pipeline fails for a step that goes on by now: %v", err)
	}

	// What is behind a job keeps it, but not from its pipeline.
	for _, id := range []int{first, a} {
		if err := q.Remove(id); !errors.Is(err, ErrState) || !strings.Contains(err.Error(), "cancel it first") {
			t.Errorf("job %d is removed, and others need it: %v", id, err)
		}
	}
	want(l.ID, Cancel, "1 waiting, 2 waiting, 3 waiting, 4 waiting, 5 waiting, 6 cancelled, 7 cancelled")
	want(p.ID, Cancel, "1 waiting, 2 cancelled, 3 cancelled, 4 cancelled, 5 cancelled, 6 cancelled, 7 cancelled")
	s := submission("x")
	s.Inputs = []Input{{Job: c}}
	if _, err := q.Submit(s); !errors.Is(err, ErrState) {
		t.Errorf("a job behind a cancelled one: %v", err)
	}
	s.Inputs = []Input{{Job: 99}}
	if _, err := q.Submit(s); !errors.Is(err, ErrNoJob) {
		t.Errorf("a job behind none: %v", err)
	}
	if err := q.Remove(p.ID); err != nil || states(q) != "1 waiting, 6 cancelled, 7 cancelled" {
		t.Errorf("%v, %s", err, states(q))
	}
}

// TestPlan: a plan counts as an attempt does. A job that was planned when the process was killed is suspect, and one that
// was so alone has failed, until it is wanted again.
func TestPlan(t *testing.T) {
	path := filepath.Join(t.TempDir(), "queue.db")
	q := opened(t, path)
	submitted(t, q, "first")
	p, err := pipeline(t, q)
	if err != nil {
		t.Fatal(err)
	}
	b := p.ID + 1
	plan := func(alone bool) {
		t.Helper()
		if _, err := q.Plan(b, alone); err != nil {
			t.Fatal(err)
		}
		if _, err := q.Plan(b, alone); !errors.Is(err, ErrState) {
			t.Errorf("it is planned twice: %v", err)
		}
	}
	expect := func(s State, suspect bool, blamed int) {
		t.Helper()
		j := state(t, q, b)
		if j.State != s || j.Suspect != suspect || j.Planning != nil || j.Open() || len(q.Blamed()) != blamed {
			t.Errorf("it is %s, suspect %v, planned %v, blamed %v; expected %s, %v, %d", j.State, j.Suspect, j.Planning, q.Blamed(), s, suspect, blamed)
		}
	}
	plan(false)
	q = killed(t, path)
	expect(Waiting, true, 0)
	plan(true)
	q.Planned(b)
	expect(Waiting, true, 0)
	q = killed(t, q.file.path)
	expect(Waiting, true, 0)
	plan(true)
	if err := q.Beside(); err != nil {
		t.Fatal(err)
	}
	q = killed(t, q.file.path)
	expect(Waiting, true, 0)
	plan(true)
	q = killed(t, q.file.path)
	expect(Failed, false, 1)
	if j := state(t, q, b); !strings.Contains(j.Failure(), "second time while this job was planned") || j.Code() != 1 {
		t.Errorf("exit code %d, %s", j.Code(), j.Failure())
	}
	q = killed(t, q.file.path)
	expect(Failed, false, 1)
	q.Told(b)
	expect(Failed, false, 0)
	if _, err := q.Want(b, Run); err != nil {
		t.Fatal(err)
	}
	plan(false)
	if _, err := q.Want(b, Pause); err != nil {
		t.Fatal(err)
	}
	q = killed(t, q.file.path)
	expect(Paused, false, 0)
	if _, err := q.Want(b, Run); err != nil {
		t.Fatal(err)
	}
	plan(false)
	s := submission("planned")
	if _, err := q.Prepare(b, &s); err != nil {
		t.Fatal(err)
	}
	q = killed(t, q.file.path)
	expect(Waiting, false, 0)
}

// TestPrepare: a job is planned once its inputs have finished, and its age begins then, without pauses before.
func TestPrepare(t *testing.T) {
	path := filepath.Join(t.TempDir(), "queue.db")
	q := opened(t, path)
	submitted(t, q, "first")
	p, err := pipeline(t, q)
	if err != nil {
		t.Fatal(err)
	}
	b := p.ID + 1
	if j := state(t, q, b); !j.Waits() || j.Age(time.Now().Add(time.Hour)) != 0 {
		t.Errorf("before its inputs have finished: age %v", j.Age(time.Now().Add(time.Hour)))
	}
	for _, w := range []Wish{Pause, Run} {
		if _, err := q.Want(b, w); err != nil {
			t.Fatal(err)
		}
	}
	plan := submission("planned")
	plan.Memory, plan.Length = 7, time.Hour
	if _, err := q.Prepare(b, &plan); err != nil {
		t.Fatal(err)
	}
	if _, err := q.Prepare(b, &plan); !errors.Is(err, ErrState) {
		t.Errorf("it is planned twice: %v", err)
	}
	again := killed(t, path)
	j := state(t, again, b)
	if age := j.Age(j.Ready.Add(time.Hour)); j.Waits() || age != time.Hour || j.Memory != 7 || j.Predicted != time.Hour || j.Unplanned != nil {
		t.Errorf("age %v, %+v", age, j)
	}
	if text, err := again.Config(b); err != nil || string(text) != string(plan.Config) {
		t.Errorf("%s, %v", text, err)
	}
	if _, err := q.Prepare(p.ID+3, nil); err != nil {
		t.Fatal(err)
	}
	if text, err := q.Config(p.ID + 3); err != nil || string(text) != "model: p/c" {
		t.Errorf("the config of a job that was planned: %s, %v", text, err)
	}
}
