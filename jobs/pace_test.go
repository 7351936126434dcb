package jobs

import (
	"testing"
	"time"

	"github.com/berth-ml/berth/jobs/queue"
)

// TestEndsAsMeasured: once steps were measured, length and end follow from them, and the prediction stays what it was.
// A job that has not begun has none measured.
func TestEndsAsMeasured(t *testing.T) {
	dir := t.TempDir()
	d := start(t, dir, "cpu:1")
	first := d.submit(t, dir, "first", text(t, "train.epochs=20000"))
	second, err := d.Submit(t.Context(), Submission{Key: "second", Config: text(t, "name=other", "train.epochs=20001"), Parent: dir, Priority: -1})
	if err != nil {
		t.Fatal(err)
	}
	if second.Length != 0 || second.Predicted == 0 {
		t.Errorf("before it begins: %+v", second)
	}
	var measured time.Time // since when enough steps were
	for end := time.Now().Add(30 * time.Second); ; time.Sleep(time.Millisecond) {
		views := d.Views()
		v, w := views[0], views[1]
		if v.Step >= enough && measured.IsZero() {
			measured = time.Now()
		}
		if v.State == queue.Running && !measured.IsZero() && time.Since(measured) > 2*tick { // ends are found at each tick
			d.mu.Lock()
			each := d.open[first].pace.each()
			d.mu.Unlock()
			if v.Length == 0 || v.Length == v.Predicted || v.Length/time.Duration(v.Steps)/2 > each {
				t.Errorf("after %d steps of %s: %s of %s are measured, and %s predicted", v.Step, each, v.Left, v.Length, v.Predicted)
			}
			if off := time.Until(*v.Ends) - v.Left; off.Abs() > v.Left/10+time.Second {
				if time.Now().After(end) {
					t.Fatalf("it ends in %s, and %s are left as measured", time.Until(*v.Ends), v.Left)
				}
				continue // the pace has changed since the last tick, as on a busy machine
			}
			if w.Length != 0 || w.Ends == nil || !w.Ends.After(*v.Ends) {
				t.Errorf("the job behind it: %+v", w)
			}
			return
		}
		if time.Now().After(end) {
			t.Fatalf("%+v", views)
		}
	}
}

// TestLengthCountsBoundaries: a prediction has the time of saves, which is most of that of a small model.
func TestLengthCountsBoundaries(t *testing.T) {
	d := openCPU(t, t.TempDir()+"/queue.db")
	predicted := func(key string, set ...string) time.Duration {
		j, err := d.Submit(t.Context(), Submission{Key: key, Config: text(t, set...), Parent: t.TempDir()})
		if err != nil {
			t.Fatal(err)
		}
		return j.Predicted
	}
	whole := predicted("whole", "train.boundary=1800")
	often := predicted("often", "train.boundary=45")
	if least := whole + 39*perSave; often < least || often > 2*least {
		t.Errorf("%s with 40 boundaries, and %s with one", often, whole)
	}
}

// TestTrialsLeft: of a trial, the time up to its rung is left.
func TestTrialsLeft(t *testing.T) {
	for _, c := range []struct {
		job  queue.Job
		left time.Duration
	}{
		{queue.Job{Predicted: 90 * time.Second, Trial: &queue.Trial{Share: 1. / 9}}, 10 * time.Second},
		{queue.Job{Length: 90 * time.Second, Left: 80 * time.Second, Trial: &queue.Trial{Share: 1. / 3}}, 20 * time.Second},
		{queue.Job{Length: 90 * time.Second, Left: 60 * time.Second, Trial: &queue.Trial{Share: 1}}, 60 * time.Second},
		{queue.Job{Length: 90 * time.Second, Left: 80 * time.Second}, 80 * time.Second},
	} {
		length, left := errorsOf(nil, nil).times(&c.job, nil)
		if length != 90*time.Second || (left-c.left).Abs() > time.Millisecond {
			t.Errorf("%+v: %s of %s are left, expected %s", c.job, left, length, c.left)
		}
	}
}

// TestErrorsOfRunningJobs: a job that was not measured is as far off as one of its name that runs.
func TestErrorsOfRunningJobs(t *testing.T) {
	list := []queue.Job{{ID: 1, Name: "a", Predicted: time.Second}, {ID: 2, Name: "a", Predicted: 2 * time.Second}}
	open := map[int]*task{1: {pace: pace{total: 100, at: 10, taken: 10, ran: time.Second}}}
	if length, left := errorsOf(list, open).times(&list[1], nil); length != 20*time.Second || left != length {
		t.Errorf("%s of %s are left", left, length)
	}
}

// TestErrorsOfOtherWork: how far off the plans of trainings are says nothing of a job that trains nothing.
func TestErrorsOfOtherWork(t *testing.T) {
	list := []queue.Job{{ID: 1, Name: "a", Predicted: time.Second, Length: 20 * time.Second}, {ID: 2, Predicted: workLength, Work: &queue.Work{Kind: queue.WorkEval}}}
	if length, left := errorsOf(list, nil).times(&list[1], nil); length != workLength || left != length {
		t.Errorf("%s of %s are left", left, length)
	}
}
