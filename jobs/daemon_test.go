package jobs

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/berth-ml/berth"
	"github.com/berth-ml/berth/configs"
	"github.com/berth-ml/berth/jobs/queue"
)

// text is the digits config with other settings.
func text(t testing.TB, set ...string) []byte {
	t.Helper()
	c, err := configs.Load("digits", configs.Overlay{Set: set})
	if err != nil {
		t.Fatal(err)
	}
	kept, err := c.Kept()
	if err != nil {
		t.Fatal(err)
	}
	return kept
}

// running is a daemon that runs until the test ends, or until stop.
type running struct {
	*Daemon
	stop func()
}

func start(t testing.TB, dir string, devices string) running {
	t.Helper()
	return startOn(t, dir, configs.Devices{Use: devices})
}

func startOn(t testing.TB, dir string, devices configs.Devices) running {
	t.Helper()
	return startWith(t, Options{Queue: filepath.Join(dir, "queue.db"), Devices: devices})
}

func startWith(t testing.TB, o Options) running {
	t.Helper()
	told := o.Told
	o.Told = func(s string) {
		t.Log(s)
		if told != nil {
			told(s)
		}
	}
	d, err := Open(o)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error)
	go func() { done <- d.Run(ctx) }()
	stopped := false
	r := running{d, func() {
		if stopped {
			return
		}
		stopped = true
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	}}
	t.Cleanup(r.stop)
	return r
}

func (r running) submit(t testing.TB, dir, key string, config []byte) int {
	t.Helper()
	j, err := r.Submit(t.Context(), Submission{Key: key, Config: config, Parent: filepath.Join(dir, "runs")})
	if err != nil {
		t.Fatal(err)
	}
	return j.ID
}

// await waits until a job is over.
func (r running) await(t testing.TB, id int) View {
	t.Helper()
	for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(2 * time.Millisecond) {
		if v, err := r.View(id); err != nil {
			t.Fatal(err)
		} else if v.State.Over() {
			return v
		}
	}
	t.Fatalf("job %d does not end: %+v", id, r.Views())
	return View{}
}

func hash(t rapid.TB, dir string) string {
	t.Helper()
	var r berth.Report
	b, err := os.ReadFile(filepath.Join(dir, "report.json"))
	if err == nil {
		err = json.Unmarshal(b, &r)
	}
	if err != nil {
		t.Fatal(err)
	}
	return r.WeightsSHA256
}

// alone are the weights of a config that is trained without a daemon.
func alone(t testing.TB, config []byte) string {
	t.Helper()
	c, err := configs.Parse("alone", config, configs.Overlay{})
	if err != nil {
		t.Fatal(err)
	}
	run, err := berth.Open(t.Context(), c, berth.OpenOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer run.Close()
	r, err := run.Train(t.Context(), berth.TrainOptions{Dir: filepath.Join(t.TempDir(), "run")})
	if err != nil {
		t.Fatal(err)
	}
	return r.WeightsSHA256
}

// TestJobs: a long job gives way to short ones, and all have the weights that they have alone.
func TestJobs(t *testing.T) {
	dir := t.TempDir()
	d := start(t, dir, "cpu:1")
	long, short := text(t, "train.epochs=20", "seed=1"), text(t, "train.epochs=1", "seed=2")
	ids := []int{d.submit(t, dir, "long", long)}
	for i := range 3 {
		time.Sleep(30 * time.Millisecond)
		ids = append(ids, d.submit(t, dir, fmt.Sprint("short", i), short))
	}
	want := []string{alone(t, long), alone(t, short)}
	for i, id := range ids {
		v := d.await(t, id)
		if v.State != queue.Finished {
			t.Fatalf("job %d is %s: %s", id, v.State, v.Failure())
		}
		if got := hash(t, v.Dir); got != want[min(i, 1)] {
			t.Errorf("job %d has weights %s, and alone %s", id, got, want[min(i, 1)])
		}
		t.Log(id, v.Step, v.Steps, v.Length, len(v.Events), v.Events)
	}
}

// TestRoomOfSuspendedJobs: a job that gives way leaves its memory, too, where there is room for one job alone. It
// goes on from host memory, in the same attempt.
func TestRoomOfSuspendedJobs(t *testing.T) {
	const room = 320 << 10
	dir := t.TempDir()
	d := startOn(t, dir, configs.Devices{Use: "cpu:1", Memory: configs.Memory{Bytes: room}})
	long, short := text(t, "train.epochs=30", "seed=1"), text(t, "train.epochs=1", "seed=2")
	first := d.submit(t, dir, "long", long)
	for v, err := d.View(first); v.Step == 0; v, err = d.View(first) {
		if err != nil || v.State.Over() {
			t.Fatalf("%+v, %v", v, err)
		}
		time.Sleep(time.Millisecond)
	}
	second := d.submit(t, dir, "short", short)
	for id, config := range map[int][]byte{first: long, second: short} {
		if v := d.await(t, id); v.State != queue.Finished {
			t.Fatalf("job %d is %s: %s", id, v.State, v.Failure())
		} else if got := hash(t, v.Dir); got != alone(t, config) {
			t.Errorf("job %d has weights %s, and alone %s", id, got, alone(t, config))
		}
	}
	views := d.Views()
	if views[0].Memory+views[1].Memory <= room {
		t.Errorf("jobs of %d and %d bytes fit in %d: nothing is shown", views[0].Memory, views[1].Memory, room)
	}
	if n := suspensions(views[:1]); n == 0 || len(views[0].Attempts) != 1 {
		t.Errorf("the long job was suspended %d times in %d attempts", n, len(views[0].Attempts))
	}
}
