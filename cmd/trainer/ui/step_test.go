package ui

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/berth-ml/berth"
	"github.com/berth-ml/berth/cmd/trainer/internal/queued"
	"github.com/berth-ml/berth/configs"
)

// The page gets the next step of a training, one at a time, and otherwise hears why there is none.
func TestStep(t *testing.T) {
	folder := copied(t, "ended")
	dir := filepath.Join(folder, "trains")
	id := RunID(dir) // before it is there
	c, err := configs.Load("digits", configs.Overlay{Set: []string{"devices.use=cpu", "devices.threads=1"}})
	if err != nil {
		t.Fatal(err)
	}
	run, err := berth.Open(t.Context(), c, berth.OpenOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer run.Close()
	training, err := run.Start(t.Context(), berth.TrainOptions{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	defer training.Close()
	var fails error
	asked := make(chan string)
	page := serve(t, Options{Folder: folder, Trace: func(ctx context.Context, dir string, job int) (*berth.StepTrace, error) {
		select {
		case asked <- fmt.Sprint(dir, job):
		case <-ctx.Done():
		}
		if fails != nil {
			return nil, fails
		}
		return run.TraceStep(ctx)
	}})
	real, err := filepath.EvalSymlinks(dir)
	if err != nil || page.id(t, "trains") != id {
		t.Fatalf("the run has the ID %s, before it was there %s; %v", page.id(t, "trains"), id, err)
	}
	type got struct {
		status int
		body   string
	}
	ask := func(of string) got {
		status, body, _ := page.do(t, page.request(t, "/api/step?run="+of))
		return got{status, body}
	}
	first := make(chan got, 1)
	go func() { first <- ask(id) }()
	select {
	case got := <-asked:
		if got != real+"0" {
			t.Errorf("asked for %s", got)
		}
	case x := <-first:
		t.Fatalf("the training was not asked: %d %s", x.status, x.body)
	}
	if x := ask(id); x.status != http.StatusConflict || !strings.Contains(x.body, "for another page") {
		t.Errorf("asked twice: %d %s", x.status, x.body)
	}
	var x got
	for end := time.Now().Add(time.Minute); x.status == 0; {
		if err := training.Step(t.Context()); err != nil || time.Now().After(end) {
			t.Fatal(err)
		}
		select {
		case x = <-first:
		default:
		}
	}
	if x.status != http.StatusOK || !strings.HasPrefix(x.body, `{"step":`) || !strings.Contains(x.body, `"kind":"launch","name":"s0.FBU0"`) {
		t.Errorf("%d %.300s", x.status, x.body)
	}
	for _, c := range []struct {
		fails  error
		status int
		says   string
	}{
		{berth.ErrNoStep, http.StatusConflict, "no step was traced"},
		{berth.ErrInUse, http.StatusConflict, berth.ErrInUse.Error()},
		{fmt.Errorf("the daemon: %w", context.DeadlineExceeded), http.StatusServiceUnavailable, "no step has begun and ended within 1m0s"},
		{errors.New("broken"), http.StatusInternalServerError, "broken"},
	} {
		fails = c.fails
		go func() { <-asked }()
		if x := ask(id); x.status != c.status || !strings.Contains(x.body, c.says) {
			t.Errorf("%v: %d %s", c.fails, x.status, x.body)
		}
	}
	if x := ask(page.id(t, "ended")); x.status != http.StatusConflict || !strings.Contains(x.body, "does not train now") {
		t.Errorf("a run that has ended: %d %s", x.status, x.body)
	}
	if x := ask("run-0"); x.status != http.StatusNotFound {
		t.Errorf("no run: %d %s", x.status, x.body)
	}
}

// Who has gone is waited for no more, and another may ask then.
func TestStepOfNobody(t *testing.T) {
	folder := copied(t, "r")
	gone := make(chan struct{})
	ctx, leave := context.WithCancel(t.Context())
	jobs := func(context.Context) []queued.Record {
		return []queued.Record{{ID: 7, State: "running", Run: filepath.Join(folder, "r")}}
	}
	page := serve(t, Options{Folder: folder, Jobs: jobs, Trace: func(of context.Context, _ string, job int) (*berth.StepTrace, error) {
		if job != 7 {
			t.Errorf("job %d is asked", job)
		}
		leave()
		<-of.Done()
		close(gone)
		return nil, of.Err()
	}})
	if a, err := page.c.Do(page.request(t, "/api/step?run="+page.id(t, "r")).WithContext(ctx)); err == nil {
		a.Body.Close()
		t.Error("an answer for who has gone")
	}
	<-gone
	for end := time.Now().Add(10 * time.Second); !page.s.tracing.Take(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("nobody else may ask")
		}
	}
	page.s.tracing.Give()
}

// An ID is that of the folder behind links.
func TestRunIDBehindLinks(t *testing.T) {
	dir := t.TempDir()
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(dir, link); err != nil {
		t.Skip(err)
	}
	if a, b := RunID(filepath.Join(dir, "x", "y")), RunID(filepath.Join(link, "x", "y")); a != b || a == RunID(dir) {
		t.Errorf("%s and %s", a, b)
	}
}
