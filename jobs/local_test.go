package jobs

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"github.com/berth-ml/berth/configs"
	"github.com/berth-ml/berth/engine/osfile"
	"github.com/berth-ml/berth/jobs/queue"
)

// TestLocalPlansAside: while a command plans a job where no daemon runs, a daemon can have the queue.
func TestLocalPlansAside(t *testing.T) {
	path := filepath.Join(t.TempDir(), "queue.db")
	l, err := OpenLocal(path)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	free := false
	l.plan = func(ctx context.Context, c *configs.Config, q *queue.Submission) (err error) {
		if free, err = osfile.Lock(f, true); err == nil && free {
			err = osfile.Unlock(f)
		}
		return errors.Join(err, planApart(ctx, c, q))
	}
	if _, err := l.Submit(t.Context(), Submission{Key: "a", Config: text(t), Parent: t.TempDir()}); err != nil || !free {
		t.Errorf("the queue was free meanwhile: %v; %v", free, err)
	}
	if views := l.Views(); len(views) != 1 {
		t.Errorf("%+v", views)
	}
}

// TestOpenForASweep: the trials of a sweep on one cpu device share its cores, if they are many enough and nothing else is asked
// for, and have the weights that they have alone.
func TestOpenForASweep(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(3))
	for _, c := range []struct {
		set, vary, atOnce string
		devices           string
	}{
		{"", "optimizer.lr=0.001,0.002,0.003,0.004,0.005,0.006,0.007,0.008,0.009", "", "cpu:0, cpu:1"},
		{"", "optimizer.lr=0.001,0.002,0.003,0.004,0.005,0.006,0.007,0.008,0.009", "1", "cpu:0"},
		{"", "optimizer.lr=0.001,0.002,0.003,0.004,0.005,0.006,0.007", "", "cpu:0"},
		{"devices.use=cpu:2", "seed=1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16", "", "cpu:0, cpu:1"},
		{"devices.memory=1GiB", "seed=1,2,3,4,5,6,7,8", "", "cpu:0"},
		{"", "seed=1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16", "", "cpu:0, cpu:1, cpu:2"},
	} {
		dir := t.TempDir()
		path := filepath.Join(dir, "queue.db")
		l, err := OpenLocal(path)
		if err != nil {
			t.Fatal(err)
		}
		flags := map[string]string{}
		if c.atOnce != "" {
			flags["at-once"] = c.atOnce
		}
		s, err := configs.SweepOfFlags("digits", []string{c.vary}, flags)
		if err != nil {
			t.Fatal(err)
		}
		yaml, err := s.YAML()
		if err != nil {
			t.Fatal(err)
		}
		set := []string{"train.epochs=1"}
		if c.set != "" {
			set = append(set, c.set)
		}
		j, err := l.Submit(t.Context(), Submission{Key: "a", Config: text(t, set...), Sweep: string(yaml), Parent: dir})
		if err := errors.Join(err, l.Close()); err != nil {
			t.Fatal(err)
		}
		d, err := OpenFor(j.ID, Options{Queue: path})
		if err != nil {
			t.Fatal(err)
		}
		if d.Devices() != c.devices {
			t.Errorf("%+v: the devices are %s", c, d.Devices())
		}
		v, err := d.RunOnly(t.Context(), j.ID)
		if err != nil || v.State != queue.Finished {
			t.Errorf("%+v: the sweep is %s: %s, %v", c, v.State, v.Failure(), err)
		}
		trial, err := d.Config(j.ID + 1)
		if err != nil {
			t.Fatal(err)
		}
		if v, _ := d.View(j.ID + 1); hash(t, v.Dir) != alone(t, trial) {
			t.Errorf("%+v: a trial has other weights than alone", c)
		}
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	}
}

// TestOpenFor: the devices for one job are those of its config, with their threads; a share of the memory that its
// plan takes is the plan's.
func TestOpenFor(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "queue.db")
	l, err := OpenLocal(path)
	if err != nil {
		t.Fatal(err)
	}
	config := text(t, "devices.use=cpu:2", "devices.threads=2", "devices.memory=90%", "devices.timeout=1h", "train.epochs=1")
	j, err := l.Submit(t.Context(), Submission{Key: "a", Config: config, Parent: dir})
	if err := errors.Join(err, l.Close()); err != nil {
		t.Fatal(err)
	}
	d, err := OpenFor(j.ID, Options{Queue: path})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	if x := d.options.Devices; x.Threads != 2 || x.Timeout != time.Hour || d.Devices() != "cpu:0, cpu:1" {
		t.Errorf("the devices are %s: %+v", d.Devices(), x)
	}
	if v, err := d.RunOnly(t.Context(), j.ID); err != nil || v.State != queue.Finished {
		t.Errorf("the job is %s: %s, %v", v.State, v.Failure(), err)
	}
}
