//go:build unix

package queued

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"testing"

	"github.com/berth-ml/berth/configs"
	"github.com/berth-ml/berth/jobs"
	"github.com/berth-ml/berth/jobs/queue"
	"github.com/berth-ml/berth/jobs/socket"
)

// TestOneShape: a job is the same object with a daemon, without one, and for the command of --on-end. So is a list.
func TestOneShape(t *testing.T) {
	dir, path := queueHere(t)
	d, err := jobs.Open(jobs.Options{
		Queue: path, Devices: configs.Devices{Use: "cpu:1"},
		Ended: func(j queue.Job) { runOnEnd(t.Context(), io.Discard, "cat > ended.json", j) },
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() {
		_, err := serve(ctx, path, d, socket.ThisProgram("1"), d.Run)
		ended <- errors.Join(err, d.Close())
	}()
	s := submission(t, dir, "first", 0)
	c, err := configs.Parse("first", s.Config, configs.Overlay{Set: []string{"optimizer.lr=1e38"}})
	if err == nil {
		s.Config, err = c.Kept()
	}
	if err == nil {
		_, err = d.Submit(t.Context(), s)
	}
	for v, missing := d.View(1); !v.State.Over(); v, missing = d.View(1) {
		if err := errors.Join(err, missing); err != nil {
			t.Fatal(err)
		}
	}
	printed := func(args ...string) string {
		t.Helper()
		var out bytes.Buffer
		c := Jobs("1")
		c.SetArgs(append(args, "--json"))
		c.SetOut(&out)
		if err := c.ExecuteContext(t.Context()); err != nil {
			t.Fatal(err)
		}
		return out.String()
	}
	show, list := printed("show", "1"), printed("ls")
	stop()
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	if got := printed("show", "1"); got != show {
		t.Errorf("show, without a daemon: %s\nwith one: %s", got, show)
	}
	if got := printed("ls"); got != list {
		t.Errorf("ls, without a daemon: %s\nwith one: %s", got, list)
	}
	text, err := os.ReadFile("ended.json")
	var indented bytes.Buffer
	if err := errors.Join(err, json.Indent(&indented, text, "", "  ")); err != nil {
		t.Fatal(err)
	}
	if got := indented.String() + "\n"; got != show {
		t.Errorf("--on-end has %s\nand show %s", got, show)
	}
	var of Record
	if err := json.Unmarshal(text, &of); err != nil || of.State != "failed" || of.Where == "" || len(of.Attempts) != 1 || len(of.Events) == 0 || of.Steps == 0 {
		t.Errorf("%v, %+v", err, of)
	}
}
