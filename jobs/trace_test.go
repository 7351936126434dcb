package jobs

import (
	"context"
	"errors"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/berth-ml/berth"
	"github.com/berth-ml/berth/jobs/queue"
)

// The daemon asks the training of a job for a step, and says of other jobs why there is none. The weights of the job are
// those that it has alone.
func TestTraceStep(t *testing.T) {
	dir := t.TempDir()
	r := start(t, dir, "cpu:1")
	config := text(t, "train.epochs=1", "train.batch=8")
	first := r.submit(t, dir, "a", text(t, "train.epochs=100000"))
	traced := func(id int) (x *berth.StepTrace, err error) {
		for end := time.Now().Add(30 * time.Second); ; time.Sleep(2 * time.Millisecond) {
			x, err = r.TraceStep(t.Context(), id)
			if v, e := r.View(id); e != nil || err == nil || v.State.Over() || time.Now().After(end) {
				return x, err
			}
		}
	}
	x, err := traced(first)
	if err != nil || x.Step < 1 || len(x.Measured.Spans) == 0 || len(x.Predicted.Spans) == 0 || x.Name != "digits" {
		t.Fatalf("%+v, %v", x, err)
	}
	for _, l := range x.Measured.Lanes {
		if l.Device != "cpu:0" || strings.Contains(l.Stream, ":") {
			t.Errorf("a lane of %s, %s", l.Device, l.Stream)
		}
	}
	second, err := r.Submit(t.Context(), Submission{Key: "b", Config: config, Parent: filepath.Join(dir, "runs"), Priority: -1})
	if err != nil {
		t.Fatal(err)
	}
	refused := func(id int, says string) {
		t.Helper()
		if _, err := r.TraceStep(t.Context(), id); !errors.Is(err, berth.ErrNoStep) || !strings.Contains(err.Error(), says) {
			t.Errorf("job %d: %v", id, err)
		}
	}
	refused(second.ID, "job 2 is waiting: needs 1 cpu: after 1")
	if _, err := r.TraceStep(t.Context(), 9); !errors.Is(err, queue.ErrNoJob) {
		t.Errorf("a job that is not there: %v", err)
	}
	r.tracing.Lock()
	if _, err := r.TraceStep(t.Context(), first); !errors.Is(err, berth.ErrInUse) {
		t.Errorf("a second one meanwhile: %v", err)
	}
	r.tracing.Unlock()
	urgent, err := r.Submit(t.Context(), Submission{Key: "c", Config: text(t, "train.epochs=100000"), Parent: filepath.Join(dir, "runs"), Priority: 1})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := traced(urgent.ID); err != nil {
		t.Fatal(err)
	}
	refused(first, "job 1 stands still while others have its devices")
	asked := make(chan error, 1)
	go func() { // until the job is cancelled
		for {
			if _, err := r.TraceStep(context.Background(), urgent.ID); err != nil {
				asked <- err
				return
			}
		}
	}()
	for _, id := range []int{first, urgent.ID} {
		if _, err := r.Want(id, queue.Cancel); err != nil {
			t.Fatal(err)
		}
		r.await(t, id)
	}
	if err := <-asked; !errors.Is(err, berth.ErrNoStep) {
		t.Errorf("while the job was cancelled: %v", err)
	}
	refused(first, "job 1 is cancelled")
	if _, err := traced(second.ID); err != nil && !errors.Is(err, berth.ErrNoStep) { // it may have ended before
		t.Error(err)
	}
	v := r.await(t, second.ID)
	if got, want := hash(t, v.Dir), alone(t, config); got != want {
		t.Errorf("weights %s, alone %s", got, want)
	}
}
