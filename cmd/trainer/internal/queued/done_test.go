//go:build unix

package queued

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/spf13/cobra"

	"github.com/berth-ml/berth/cmd/trainer/internal/signals"
	"github.com/berth-ml/berth/configs"
	"github.com/berth-ml/berth/jobs"
	"github.com/berth-ml/berth/jobs/socket"
)

// daemonOf serves a daemon whose program is known, in a folder that is the working folder from now on.
func daemonOf(t *testing.T, program string) {
	t.Helper()
	_, path := queueHere(t)
	d, err := jobs.Open(jobs.Options{Queue: path, Devices: configs.Devices{Use: "cpu:1"}, Program: program})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ran := make(chan error, 1)
	go func() {
		_, err := serve(ctx, path, d, socket.ThisProgram("1"), d.Run)
		ran <- err
	}()
	t.Cleanup(func() {
		cancel()
		if err := errors.Join(<-ran, d.Close()); err != nil {
			t.Error(err)
		}
	})
	for {
		if client, err := socket.Dial(t.Context(), socket.Path(path), socket.ThisProgram("1")); err == nil {
			client.Close()
			return
		}
	}
}

// says runs a command, which must print what a pattern has.
func says(t *testing.T, c *cobra.Command, pattern string, args ...string) {
	t.Helper()
	var out bytes.Buffer
	c.SetArgs(args)
	c.SetOut(&out)
	c.SetErr(&out)
	if err := c.ExecuteContext(t.Context()); err != nil || !regexp.MustCompile(pattern).Match(out.Bytes()) {
		t.Errorf("%v: %v\n%s\nexpected %s", args, err, out.String(), pattern)
	}
}

// TestSubmitDone: a job that was trained before is finished at once, and says as which. The best trial of a sweep whose
// checkpoint is deleted can be trained again.
func TestSubmitDone(t *testing.T) {
	daemonOf(t, "one")
	stop := &signals.Stop{}
	one := []string{"digits", "--set", "train.epochs=1", "--wait"}
	says(t, Submit(stop, "1"), `^job 1 in runs/digits: at most `, one...)
	says(t, Submit(stop, "1"), `^job 2 is finished, as job 1 in runs/digits: .*--again`, one...)
	says(t, Jobs("1"), `(?m)^job 2 \(digits\): finished, as job 1\nrun folder  runs/digits$`, "show", "2")
	says(t, Jobs("1"), `(?m)^2 +digits +finished +45/45 +[0-9.]+ .* as job 1$`, "ls")
	says(t, Jobs("1"), `"as": 1`, "show", "2", "--json")
	says(t, Submit(stop, "1"), `^job 3 in runs/digits-2: at most `, append(one, "--again")...)

	sweep := []string{"digits", "--set", "train.epochs=1", "--wait", "--vary", "seed=1,5,6"}
	says(t, Sweep(stop, "1"), `^sweep 4: 3 trials in runs/digits-3`, sweep...)
	says(t, Sweep(stop, "1"), `"as": 1,`, "show", "4", "--json")
	says(t, Sweep(stop, "1"), `^trial [123] in runs/digits\S*: val_loss [0-9.]+ at step 45 of 45\n$`, "best", "4", "-o", "a.yaml")
	for _, run := range []string{"digits", "digits-2", "digits-3/trial-002", "digits-3/trial-003"} {
		if err := os.Remove(filepath.Join("runs", run, "checkpoints.db")); err != nil {
			t.Fatal(err)
		}
	}
	says(t, Sweep(stop, "1"), `its checkpoint is deleted: trainer submit of this config trains it again\n$`, "best", "4", "-o", "b.yaml")
	says(t, Submit(stop, "1"), `(?m)^job 8 in runs/digits-4: at most `, "b.yaml", "--wait")
}
