package jobs

import (
	"context"
	"errors"
	"os"
	"path/filepath"
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
