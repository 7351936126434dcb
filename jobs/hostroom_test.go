package jobs

import (
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/berth-ml/berth/configs"
	"github.com/berth-ml/berth/internal/testall"
	"github.com/berth-ml/berth/jobs/queue"
)

// TestHostMemory: where host memory has room for one job alone, one that gives way in the middle of an epoch is
// saved and closed. It goes on from there, and has the weights that it has alone.
func TestHostMemory(t *testing.T) {
	dir := t.TempDir()
	d := startOn(t, dir, configs.Devices{Use: "cpu:1", HostMemory: 1 << 20})
	long := text(t, "train.epochs=20", "seed=1", "train.batch=7")
	first := d.submit(t, dir, "long", long)
	want := map[int][]byte{first: long}
	for i := range 3 {
		for v, _ := d.View(first); v.Step < (i+1)*200+3; v, _ = d.View(first) {
			time.Sleep(time.Millisecond)
		}
		short := text(t, "train.epochs=3", "train.batch=128", fmt.Sprintf("seed=%d", 2+i))
		j, err := d.Submit(t.Context(), Submission{Key: fmt.Sprint("short", i), Config: short, Parent: dir, Priority: 1})
		if err != nil {
			t.Fatal(err)
		}
		want[j.ID] = short
	}
	for id, config := range want {
		v := d.await(t, id)
		if v.State != queue.Finished {
			t.Fatalf("job %d is %s: %s", id, v.State, v.Failure())
		}
		if got := hash(t, v.Dir); got != alone(t, config) {
			t.Errorf("job %d has weights %s, and alone %s", id, got, alone(t, config))
		}
	}
	if v, _ := d.View(first); len(v.Attempts) != 4 {
		t.Errorf("the long job was opened %d times, and gave way 3 times", len(v.Attempts))
	}
}

// TestHostMemoryOfRunningJobs: a job whose device is free waits while those that run have the host memory, and says
// so. None of them is closed.
func TestHostMemoryOfRunningJobs(t *testing.T) {
	dir := t.TempDir()
	d := startOn(t, dir, configs.Devices{Use: "cpu:2", HostMemory: 1 << 20})
	first := d.submit(t, dir, "first", text(t, "train.epochs=20", "seed=1", "train.batch=7"))
	second := d.submit(t, dir, "second", text(t, "train.epochs=3", "train.batch=128"))
	said := false
	for {
		views := d.Views()
		a, b := views[0], views[1]
		if a.State.Over() {
			break
		}
		if b.State == queue.Running {
			if now, _ := d.View(first); !now.State.Over() {
				t.Fatalf("both run: %+v", views)
			}
		}
		time.Sleep(time.Millisecond)
		said = said || strings.HasPrefix(b.Where, "needs ") && strings.HasSuffix(b.Where, " of host memory: after others are saved or have ended")
	}
	for _, id := range []int{first, second} {
		if v := d.await(t, id); v.State != queue.Finished || len(v.Attempts) != 1 {
			t.Errorf("job %d is %s after %d attempts: %s", id, v.State, len(v.Attempts), v.Failure())
		}
	}
	if !said {
		t.Error("the second job has not said what it waits for")
	}
}

// TestHostBytes: jobs with data in common count it once.
func TestHostBytes(t *testing.T) {
	all, data := hostBytes([]queue.Job{{Host: 1, Data: 10, DataID: "a"}, {Host: 2, Data: 10, DataID: "a"}, {Host: 4, Data: 20, DataID: "b"}})
	if all != 37 || data != 30 {
		t.Errorf("%d bytes, %d of data", all, data)
	}
}

// TestHostMemoryOfACrowd: jobs whose priorities change all the time are saved and closed in any order, some with data
// in common, and have the weights that they have alone.
func TestHostMemoryOfACrowd(t *testing.T) {
	testall.Long(t)
	dir := t.TempDir()
	var all [][]byte
	for i := range 6 {
		all = append(all, text(t, "train.epochs=30", fmt.Sprintf("seed=%d", i%3), fmt.Sprintf("train.batch=%d", 7+i*9)))
	}
	table := onTable(t, dir, 2000, "train.epochs=30")
	all = append(all, table, table)
	var want []string
	for _, c := range all {
		want = append(want, alone(t, c))
	}
	d := startOn(t, dir, configs.Devices{Use: "cpu:2", HostMemory: 1300 << 10})
	for i, c := range all {
		d.submit(t, dir, fmt.Sprint(i), c)
	}
	for running := true; running; time.Sleep(time.Duration(rand.IntN(60)) * time.Millisecond) {
		running = false
		for _, v := range d.Views() {
			running = running || !v.State.Over()
		}
		_, _ = d.SetPriority(1+rand.IntN(len(all)), rand.IntN(10)) // of one that has ended, it is refused
	}
	attempts := 0
	for i, v := range d.Views() {
		attempts += len(v.Attempts)
		if v.State != queue.Finished {
			t.Fatalf("job %d is %s: %s", v.ID, v.State, v.Failure())
		}
		if got := hash(t, v.Dir); got != want[i] {
			t.Errorf("job %d in %s has weights %s, and alone %s", v.ID, filepath.Base(v.Dir), got, want[i])
		}
	}
	if n := d.owned.Data().Bytes(); attempts == len(all) || n != 0 {
		t.Errorf("%d attempts of %d jobs; %d bytes of data are left", attempts, len(all), n)
	}
	t.Logf("%d jobs were opened %d times", len(all), attempts)
}
