package jobs_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/berth-ml/berth/internal/testall"
	"github.com/berth-ml/berth/jobs"
	"github.com/berth-ml/berth/jobs/queue"
)

// TestPipelinesAreKilled: a pipeline whose daemon is killed again and again, also while it plans, learns and exports, makes
// what it makes when it is left alone. No step is there twice, and none begins again that has finished. Each daemon may
// live longer than the one before it, so that each step comes to its end sooner or later, also under the race detector.
// BERTH_KILLS=200 makes it long.
func TestPipelinesAreKilled(t *testing.T) {
	testall.Long(t)
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 1))
	total := 0
	for total < kills(t) {
		dir, killed := t.TempDir(), 0
		s := jobs.PipelineIn(t, dir, "")
		s.Retries = 2
		began := time.Now()
		want := jobs.ByHand(t, dir, t.TempDir(), "")
		long := int64(time.Since(began))
		for over := false; !over; killed++ {
			p := startProcess(t, dir)
			over = watchPipeline(t, p, s, time.Duration(random.Int64N(long*int64(4+killed)/8)))
			p.kill(t)
		}
		total += killed
		l, err := jobs.OpenLocal(filepath.Join(dir, "queue.db"))
		if err != nil {
			t.Fatal(err)
		}
		views := l.Views()
		if len(views) != 1+len(s.Steps) {
			t.Errorf("%d jobs: %+v", len(views), views)
		}
		for _, v := range views {
			if v.State != queue.Finished {
				t.Errorf("job %d (%s) is %s: %s", v.ID, v.Name, v.State, v.Where)
			}
			if err := finishedOnce(&v.Job); err != nil {
				t.Error(err)
			}
		}
		if got := jobs.MadeIn(t, dir, views); got != want {
			t.Errorf("after %d kills:\n%s\nby hand:\n%s", killed, got, want)
		}
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("%d kills", total)
}

// finishedOnce refuses an attempt that failed for another reason than kills, or comes after the job had finished.
func finishedOnce(j *queue.Job) error {
	finished := 0
	for i, e := range j.Events {
		if e.What == string(queue.Finished) {
			finished = i + 1
		}
	}
	if j.Pipeline {
		return nil
	}
	if finished != len(j.Events) {
		return errors.New("something happened to job " + j.Name + " after it had finished: " + j.Events[len(j.Events)-1].What)
	}
	return attempted(j)
}

// watchPipeline submits a pipeline, once, and watches it for some time. over says that it has finished. A job that was blamed
// for the kills is tried again.
func watchPipeline(t *testing.T, p *process, s jobs.Submission, patience time.Duration) (over bool) {
	ctx, cancel := context.WithTimeout(t.Context(), patience+time.Minute)
	defer cancel()
	c, err := p.dial(ctx)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	j, err := c.Submit(ctx, s)
	if err != nil {
		t.Fatal(err)
	}
	for began := time.Now(); time.Since(began) < patience; time.Sleep(5 * time.Millisecond) {
		list, _, err := c.Views(ctx)
		if err != nil {
			t.Fatal(err)
		}
		for _, v := range list {
			if v.State == queue.Waiting && v.Where == "" && !v.Pipeline {
				t.Errorf("job %d (%s) waits, and nobody says why", v.ID, v.Name)
			}
			if v.State == queue.Failed && !v.Pipeline {
				if !strings.Contains(v.Where, "the second time") {
					t.Fatalf("job %d (%s) failed: %s", v.ID, v.Name, v.Where)
				}
				if _, err := c.Want(ctx, v.ID, queue.Run); err != nil {
					t.Fatal(err)
				}
			}
			over = over || v.ID == j.ID && v.State == queue.Finished
		}
		if over {
			break
		}
	}
	return over
}
