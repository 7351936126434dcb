package jobs

import (
	"fmt"
	"testing"
	"time"

	"github.com/berth-ml/berth/internal/testall"
	"github.com/berth-ml/berth/jobs/queue"
)

// TestCrowd: ten jobs on two devices give way to each other at least 20 times, as one half and the other are ahead
// in turns. They end with the weights that they have alone.
func TestCrowd(t *testing.T) {
	testall.Long(t)
	const jobs, most = 10, 20
	dir := t.TempDir()
	d := start(t, dir, "cpu:2")
	var ids []int
	var configs [][]byte
	var want []string
	for i := range jobs {
		c := text(t, fmt.Sprint("seed=", i), fmt.Sprint("train.epochs=", 12+i))
		configs, want = append(configs, c), append(want, alone(t, c))
	}
	for i, c := range configs {
		ids = append(ids, d.submit(t, dir, fmt.Sprint(i), c))
	}
	for round := 0; suspensions(d.Views()) < most; round++ {
		for i, id := range ids {
			_, _ = d.SetPriority(id, (i+round)%2) // it fails once the job has ended
		}
		if !d.settles(t) {
			t.Fatalf("%d suspensions before all had ended", suspensions(d.Views()))
		}
	}
	for i, id := range ids {
		v := d.await(t, id)
		if v.State != queue.Finished {
			t.Errorf("job %d is %s: %s", id, v.State, v.Failure())
		} else if got := hash(t, v.Dir); got != want[i] {
			t.Errorf("job %d has weights %s, and alone %s", id, got, want[i])
		}
	}
	n, attempts := suspensions(d.Views()), 0
	for _, v := range d.Views() {
		attempts += len(v.Attempts)
	}
	t.Logf("%d suspensions; %d times a job went on on another device", n, attempts-jobs)
}

// settles waits until jobs of priority 1 run alone, and says whether there are any.
func (r running) settles(t *testing.T) bool {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); time.Now().Before(end); time.Sleep(time.Millisecond) {
		r.checkDevices(t)
		open, ahead, behind := 0, 0, 0
		views := r.Views()
		if err := untrue(views); err != nil {
			t.Fatal(err)
		}
		for _, v := range views {
			if !v.State.Over() {
				open++
			}
			if v.State != queue.Running {
				continue
			}
			if v.Priority == 1 {
				ahead++
			} else {
				behind++
			}
		}
		if open == 0 || ahead > 0 && behind == 0 {
			return open > 0
		}
	}
	t.Fatalf("jobs behind others run: %+v", r.Views())
	return false
}

// checkDevices wants no device with two jobs of which none stands still. One that was suspended and is to end
// takes no more steps, and makes its last save whoever has the device.
func (r running) checkDevices(t *testing.T) {
	t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	on := map[string]int{}
	for id, x := range r.open {
		if x.stands() || x.ending {
			continue
		}
		for _, name := range x.devices {
			if other := on[name]; other != 0 {
				t.Errorf("jobs %d and %d have %s at once", id, other, name)
			}
			on[name] = id
		}
	}
}

// suspensions is how often jobs ran, and then waited.
func suspensions(views []View) (n int) {
	for _, v := range views {
		runs := false
		for _, e := range v.Events {
			if runs && e.What == string(queue.Waiting) {
				n++
			}
			runs = e.What == string(queue.Running) || runs && e.What != string(queue.Waiting)
		}
	}
	return n
}
