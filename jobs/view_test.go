package jobs

import (
	"errors"
	"fmt"
	"path/filepath"
	"regexp"
	"strconv"
	"testing"
	"time"

	"github.com/berth-ml/berth/configs"
	"github.com/berth-ml/berth/jobs/order"
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

var (
	onDevices = regexp.MustCompile(`^[a-z]+:\d+(, [a-z]+:\d+)*$`)
	afterJobs = regexp.MustCompile(`\bafter (?:job |the save of )?((?:\d+, )*\d+(?: and \d+)?)`)
	digits    = regexp.MustCompile(`\d+`)
)

// untrue finds a view that says where a job is, or why it waits, and that the others contradict. There is no sweep among them.
func untrue(views []View) error {
	states := map[int]queue.State{}
	for _, v := range views {
		states[v.ID] = v.State
	}
	for i := range views {
		v := &views[i]
		wrong := func(why string) error {
			return fmt.Errorf("job %d is %s (%s), but %s: %+v", v.ID, v.State, v.Where, why, states)
		}
		on := onDevices.MatchString(v.Where)
		switch {
		case v.Open() && v.State != queue.Running && v.State != queue.Waiting:
			return wrong("it is open")
		case v.State == queue.Running && !on && v.Where != "saving":
			return wrong("it has devices")
		case v.State == queue.Waiting && (on || v.Where == ""):
			return wrong("it has no devices")
		case (v.State == queue.Paused || v.State == queue.Finished || v.State == queue.Cancelled) && v.Where != "":
			return wrong("it does not wait")
		case v.State != queue.Waiting:
			continue
		}
		begins := v.Where == "about to begin" || v.Where == "the daemon begins no more jobs"
		goesOn := v.Where == "about to go on" || v.Where == "saving"
		if v.Open() && begins || !v.Open() && goesOn && len(v.Attempts) > 0 { // a client's list has no attempts
			return wrong(fmt.Sprintf("open is %v", v.Open()))
		}
		if of := afterJobs.FindStringSubmatch(v.Where); of != nil {
			for _, text := range digits.FindAllString(of[1], -1) {
				id, _ := strconv.Atoi(text)
				if s := states[id]; id == v.ID || s != queue.Running && s != queue.Waiting {
					return wrong(fmt.Sprintf("job %d is %q", id, s))
				}
			}
		}
	}
	return nil
}

// TestWhyBeforeADecision: what is said of jobs follows from how they are, also where the daemon has not decided since.
func TestWhyBeforeADecision(t *testing.T) {
	d, err := Open(Options{Queue: t.TempDir() + "/queue.db", Devices: configs.Devices{Use: "cpu:1"}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = d.Close() })
	submit := func(priority int) int {
		j, err := d.queue.Submit(queue.Submission{Key: fmt.Sprint(priority), Priority: priority, Needs: []order.Need{{Kind: "cpu", Count: 1}}})
		if err != nil {
			t.Fatal(err)
		}
		return j.ID
	}
	where := func(id int) string {
		v, err := d.View(id)
		if err != nil {
			t.Fatal(err)
		}
		return v.Where
	}
	first, second := submit(1), submit(0)
	if got := where(first); got != "about to begin" {
		t.Errorf("the first job: %q", got)
	}
	if got := where(second); got != "needs 1 cpu: after 1" {
		t.Errorf("the second job: %q", got)
	}
	if _, err := d.Want(first, queue.Pause); err != nil {
		t.Fatal(err)
	}
	if got := where(second); got != "about to begin" {
		t.Errorf("after the first is paused, the second: %q", got)
	}
}

// TestBehindOthers: what a job says that waits for one which does not go on.
func TestBehindOthers(t *testing.T) {
	dir := t.TempDir()
	l, err := OpenLocal(filepath.Join(dir, "queue.db"))
	if err != nil {
		t.Fatal(err)
	}
	submit := func(key string, after ...int) int {
		t.Helper()
		j, err := l.Submit(t.Context(), Submission{Key: key, Config: text(t), Parent: dir, After: after})
		if err != nil {
			t.Fatal(err)
		}
		return j.ID
	}
	input := submit("input")
	behind := submit("behind", input)
	last := submit("last", behind)
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	d, err := Open(Options{Queue: filepath.Join(dir, "queue.db"), Devices: configs.Devices{Use: "cpu:1"}})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	for _, c := range []struct {
		wish   queue.Wish
		stuck  int
		behind string
		last   string
	}{
		{queue.Run, 0, "waits for job 1 (digits)", "waits for job 2 (digits)"},
		{queue.Pause, 0, "waits for job 1 (digits), which is paused: trainer jobs resume 1 lets it go on", "waits for job 2 (digits)"},
		{queue.Cancel, 1, "job 1 (digits) is cancelled, so this job cannot begin: trainer jobs cancel 2 ends it, too",
			"job 1 (digits) is cancelled, so this job cannot begin: trainer jobs cancel 3 ends it, too"},
	} {
		if _, err := d.Want(input, c.wish); err != nil {
			t.Fatal(err)
		}
		for id, want := range map[int]string{behind: c.behind, last: c.last} {
			if v, err := d.View(id); err != nil || v.Where != want || v.Stuck != c.stuck {
				t.Errorf("job 1 is to %s: job %d says %q, behind job %d, %v", c.wish, id, v.Where, v.Stuck, err)
			}
		}
	}
	if _, err := d.Want(behind, queue.Cancel); err != nil {
		t.Fatal(err)
	}
	if v, err := d.View(behind); err != nil || v.Stuck != 0 {
		t.Errorf("a job that is over is behind job %d, %v", v.Stuck, err)
	}
}
