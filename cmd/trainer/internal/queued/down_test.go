//go:build unix

package queued

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/berth-ml/berth"
	"github.com/berth-ml/berth/configs"
	"github.com/berth-ml/berth/jobs"
	"github.com/berth-ml/berth/jobs/queue"
	"github.com/berth-ml/berth/jobs/socket"
)

// TestDownWaits: down says for which jobs it waits, and a signal ends it with the exit code of a stop, not the daemon's jobs.
func TestDownWaits(t *testing.T) {
	dir, path := queueHere(t)
	d, err := jobs.Open(jobs.Options{Queue: path, Devices: configs.Devices{Use: "cpu:1"}})
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() {
		_, err := serve(context.Background(), path, d, socket.ThisProgram("1"), d.Run)
		ended <- errors.Join(err, d.Close())
	}()
	for _, name := range []string{"first", "second"} {
		if _, err := d.Submit(t.Context(), submission(t, dir, name, 0)); err != nil {
			t.Fatal(err)
		}
	}
	for v, err := d.View(1); v.State != queue.Running || v.Ends == nil; v, err = d.View(1) {
		if err != nil {
			t.Fatal(err)
		}
	}
	down := func(ctx context.Context, says io.Writer, args ...string) error {
		c := Down("1")
		c.SetArgs(append([]string{}, args...)) // nil: those of the test
		c.SetErr(says)
		c.SilenceErrors, c.SilenceUsage = true, true
		return c.ExecuteContext(ctx)
	}
	signal, interrupt := context.WithCancel(t.Context())
	says := make(lines, 100)
	waits := make(chan error, 1)
	go func() { waits <- down(signal, says, "--finish") }()
	select {
	case text := <-says:
		if !strings.HasPrefix(text, "down: waits for job 1 (") || !strings.Contains(text, "), which ends in ") || strings.Contains(text, "job 2") {
			t.Errorf("it says %q", text)
		}
	case err := <-waits:
		t.Fatalf("it says nothing: %v", err)
	case <-time.After(20 * time.Second):
		t.Fatal("it says nothing")
	}
	interrupt()
	if err := <-waits; !errors.Is(err, berth.ErrStopped) || !strings.Contains(err.Error(), "trainer up ends once the jobs have ended that have begun") {
		t.Errorf("after a signal: %v", err)
	}
	if v, err := d.View(1); err != nil || v.State != queue.Running {
		t.Errorf("then job 1 is %s; %v", v.State, err)
	}
	if err := down(t.Context(), says); err != nil {
		t.Fatal(err)
	}
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// TestUnwatched: a command that waits no more says what becomes of the job.
func TestUnwatched(t *testing.T) {
	for want, v := range map[string]jobs.View{
		"goes on":                        {Job: queue.Job{State: queue.Running}, Where: "cpu:0"},
		"is paused":                      {Job: queue.Job{State: queue.Paused}},
		"waits for a daemon: trainer up": {Job: queue.Job{State: queue.Waiting}, Where: jobs.WaitsForDaemon},
	} {
		if got := unwatched(&v); got != want {
			t.Errorf("%s: %q, want %q", v.State, got, want)
		}
	}
}
