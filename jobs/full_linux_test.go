package jobs

import (
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/berth-ml/berth/configs"
	"github.com/berth-ml/berth/internal/testall"
	"github.com/berth-ml/berth/jobs/queue"
)

// small is a folder on a disk of its own.
func small(t *testing.T, size string) (dir string) {
	t.Helper()
	dir = t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size="+size); err != nil {
		t.Skip("mount: ", err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(dir, syscall.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	return dir
}

// fill leaves no room in a folder, until empty.
func fill(t *testing.T, dir string) (empty func()) {
	t.Helper()
	path := filepath.Join(dir, "filler")
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	for err == nil {
		_, err = f.Write(make([]byte, 4096))
	}
	if !errors.Is(err, syscall.ENOSPC) {
		t.Fatal(err)
	}
	f.Close()
	return func() {
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
	}
}

// TestFullQueue: while the disk of the queue is full, submissions are refused, what runs goes on, nothing
// begins, and each says so.
func TestFullQueue(t *testing.T) {
	testall.Long(t)
	disk, dir := small(t, "2m"), t.TempDir()
	d := start(t, disk, "cpu:1")
	long := d.submit(t, dir, "long", text(t, "train.epochs=400"))
	d.until(t, long, func(v View) bool { return v.Step > 0 })
	if _, err := d.SetPriority(long, 1); err != nil {
		t.Fatal(err)
	}
	waits := d.submit(t, dir, "waits", text(t, "train.epochs=1"))
	empty := fill(t, disk)
	big := append(text(t), "# "+strings.Repeat("x", 200_000)...)
	s := Submission{Key: "big", Config: big, Parent: filepath.Join(dir, "runs")}
	if _, err := d.Submit(t.Context(), s); !errors.Is(err, syscall.ENOSPC) {
		t.Fatalf("a submission on a full disk: %v", err)
	}
	if v, err := d.View(waits); err == nil && v.State == queue.Running {
		t.Fatal("the other job has begun: the test shows nothing")
	}
	if _, err := d.Want(long, queue.Cancel); err != nil {
		t.Skip("the file has no free page for the wish: ", err)
	}
	d.until(t, long, func(v View) bool { return v.State == queue.Cancelled })
	d.until(t, waits, func(v View) bool { return v.State != queue.Waiting || strings.Contains(v.Where, "cannot be written: ") })
	time.Sleep(2 * tick) // nor does it begin later
	if v, err := d.View(waits); err != nil || v.State != queue.Waiting || !strings.Contains(v.Where, "cannot be written: ") {
		t.Errorf("the job that waits is %s: %s, %v", v.State, v.Where, err)
	}
	if d.Full() == nil {
		t.Error("the daemon does not say that the disk is full")
	}
	empty()
	if v := d.await(t, waits); v.State != queue.Finished {
		t.Errorf("with room again, the job is %s", v.State)
	}
}

// TestFullRunFolder: a job whose checkpoints find no room waits for it, uses up none of its retries, and has
// the weights that it has alone.
func TestFullRunFolder(t *testing.T) {
	testall.Long(t)
	retrySoon(t)
	disk, dir := small(t, "8m"), t.TempDir()
	d := startOn(t, dir, configs.Devices{Use: "cpu:1"})
	config := text(t, "train.epochs=100", "checkpoint.every=20")
	id := d.submit(t, disk, "a", config)
	d.until(t, id, func(v View) bool { return v.Step > 0 })
	empty := fill(t, disk)
	d.until(t, id, func(v View) bool { return strings.Contains(v.Where, "begins again in 1 s: checkpoint at step") })
	other := d.submit(t, dir, "b", text(t, "train.epochs=1"))
	if v := d.await(t, other); v.State != queue.Finished {
		t.Errorf("a job with room is %s: %s", v.State, v.Failure())
	}
	empty()
	v := d.await(t, id)
	if v.State != queue.Finished || hash(t, v.Dir) != alone(t, config) {
		t.Errorf("with room again, the job is %s: %+v", v.State, v.Attempts)
	}
	if len(v.Attempts) < 2 {
		t.Errorf("the disk was never full for it: %+v", v.Attempts)
	}
}

// TestFullPipeline: the steps of a pipeline whose disk is full again and again wait for room, use up none of their retries, and
// make what they make with room.
func TestFullPipeline(t *testing.T) {
	testall.Long(t)
	retrySoon(t)
	disk, dir := small(t, "16m"), t.TempDir()
	d := startOn(t, dir, configs.Devices{Use: "cpu:1"})
	s := pipelineIn(t, dir, "")
	s.Parent = filepath.Join(disk, "runs")
	for i := range s.Steps {
		if w := s.Steps[i].Work; w != nil && w.Kind == queue.WorkExport {
			w.Out = filepath.Join(disk, "out", filepath.Base(w.Out))
		}
	}
	j, err := d.Submit(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	failures := func() (n int) { // attempts without room
		for _, v := range d.Views() {
			for _, a := range v.Attempts {
				if a.Error != "" {
					n++
				}
			}
		}
		return n
	}
	full := 0
	for over := false; !over; full++ {
		empty := fill(t, disk)
		if full == 0 {
			d.until(t, j.ID, func(v View) bool { return v.State.Over() || failures() > 0 })
		}
		time.Sleep(time.Duration(rand.Int64N(int64(60 * time.Millisecond))))
		empty()
		time.Sleep(time.Duration(rand.Int64N(int64(120 * time.Millisecond))))
		v, err := d.View(j.ID)
		over = err != nil || v.State.Over()
	}
	if v, err := d.View(j.ID); err != nil || v.State != queue.Finished {
		t.Fatalf("the pipeline is %s: %s, %v", v.State, v.Where, err)
	}
	t.Logf("full %d times, %d attempts without room", full, failures())
	if failures() == 0 {
		t.Error("the disk was never full for it")
	}
	if got, want := madeIn(t, disk, folders(t, d.Views())), byHand(t, dir, t.TempDir(), ""); got != want {
		t.Errorf("got\n%s\nby hand\n%s", got, want)
	}
}
