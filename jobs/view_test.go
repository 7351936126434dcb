package jobs

import (
	"errors"
	"path/filepath"
	"testing"
	"time"

	"github.com/berth-ml/berth/jobs/queue"
)

// TestLastKnown: step and loss of a job that is closed are the last ones, also without a daemon. One that has not
// begun has the steps of its plan.
func TestLastKnown(t *testing.T) {
	dir := t.TempDir()
	d := start(t, dir, "cpu:1")
	done := d.submit(t, dir, "done", text(t, "train.epochs=2"))
	if v := d.await(t, done); v.Step != 90 || v.Steps != 90 || v.Loss == nil {
		t.Errorf("at the end: %d of %d steps, loss %v", v.Step, v.Steps, v.Loss)
	}
	d.mu.Lock()
	d.ends = map[int]time.Time{done: time.Now()} // as found before it ended
	d.mu.Unlock()
	if v, err := d.View(done); err != nil || v.Ends != nil {
		t.Errorf("it has ended, and ends at %v; %v", v.Ends, err)
	}
	long := d.submit(t, dir, "long", text(t, "train.epochs=100000"))
	for v, err := d.View(long); v.Step <= 45 || v.Loss == nil; v, err = d.View(long) {
		if err != nil || v.State.Over() {
			t.Fatalf("%+v, %v", v, err)
		}
	}
	if _, err := d.Want(long, queue.Pause); err != nil {
		t.Fatal(err)
	}
	var paused View
	for paused.State != queue.Paused {
		var err error
		if paused, err = d.View(long); err != nil {
			t.Fatal(err)
		}
	}
	if paused.Step <= 45 || paused.Steps != 4500000 || paused.Loss == nil {
		t.Errorf("paused: %d of %d steps, loss %v", paused.Step, paused.Steps, paused.Loss)
	}
	d.stop()
	l, err := OpenLocal(filepath.Join(dir, "queue.db"))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	fresh, err := l.Submit(t.Context(), Submission{Key: "fresh", Config: text(t), Parent: dir})
	v, missing := l.View(long)
	if err := errors.Join(err, missing); err != nil || v.Step != paused.Step || v.Steps != paused.Steps || v.Loss == nil || *v.Loss != *paused.Loss {
		t.Errorf("without a daemon: %d of %d steps, loss %v; %v", v.Step, v.Steps, v.Loss, err)
	}
	if fresh.Step != 0 || fresh.Steps != 1800 {
		t.Errorf("before it begins: %d of %d steps", fresh.Step, fresh.Steps)
	}
}
