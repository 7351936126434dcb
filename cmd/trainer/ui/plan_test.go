package ui

import (
	"cmp"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/berth-ml/berth/checkpoint"
	"github.com/berth-ml/berth/checkpoint/rundir"
	"github.com/berth-ml/berth/configs"
)

// Plans are drawn one at a time, each config once, and a failure is told.
func TestPlan(t *testing.T) {
	folder := copied(t, "a", "b", "c", "d", "e")
	write := func(name string, text []byte) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(folder, name, rundir.ConfigName), text, 0o666); err != nil {
			t.Fatal(err)
		}
	}
	write("b", []byte("name: bad # <script>\n"))
	write("c", make([]byte, configs.MaxFile+1))
	if err := os.Remove(filepath.Join(folder, "d", rundir.ConfigName)); err != nil { // its checkpoint has it
		t.Fatal(err)
	}
	var calls, at atomic.Int32
	c := serve(t, Options{Folder: folder, Plan: func(_ context.Context, config []byte) (Picture, error) {
		calls.Add(1)
		if at.Add(1) > 1 {
			t.Error("two plans are drawn at once")
		}
		defer at.Add(-1)
		if strings.Contains(string(config), "bad") {
			return Picture{}, errors.New("config.yaml:1: <script> is no key")
		}
		return Picture{SVG: "<svg><script>alert(1)</script></svg>", Table: "stage 0"}, nil
	}})
	ids := map[string]string{}
	for _, name := range []string{"a", "b", "c", "d", "e"} {
		ids[name] = c.id(t, name)
	}
	var wait sync.WaitGroup
	for range 8 {
		for name, want := range map[string]int{"a": 200, "b": 422, "c": 422, "d": 200, "e": 200} {
			wait.Go(func() {
				status, body, h := c.do(t, c.request(t, "/api/plan?run="+ids[name]))
				if status != want || strings.Contains(body, "<") || h.Get("Content-Type") != "application/json" {
					t.Errorf("%s: %d %s", name, status, body)
				}
				if name == "c" && !strings.Contains(body, "too long") || name == "b" && !strings.Contains(body, "is no key") {
					t.Errorf("%s: %s", name, body)
				}
			})
		}
	}
	wait.Wait()
	if n := calls.Load(); n > 3 { // a and e have one config; d has it as its checkpoint does
		t.Errorf("%d plans were drawn for three configs", n)
	}
	if status, _, _ := c.do(t, c.request(t, "/api/plan?run=run-nothing")); status != 404 {
		t.Errorf("no such run: %d", status)
	}
}

// A drawing ends with its request, and is not remembered then.
func TestPlanBrokenOff(t *testing.T) {
	begun := make(chan struct{})
	p := newPictures(func(ctx context.Context, _ []byte) (Picture, error) {
		begun <- struct{}{}
		<-ctx.Done()
		return Picture{}, ctx.Err()
	})
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { _, err := p.of(ctx, []byte("x")); ended <- err }()
	<-begun
	second, give := context.WithCancel(t.Context())
	give()
	if _, err := p.of(second, []byte("y")); !errors.Is(err, context.Canceled) { // it waits for its turn
		t.Error(err)
	}
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) || len(p.list) > 0 {
		t.Errorf("%v, %d remembered", err, len(p.list))
	}
}

// The plan of a run that is just starting is drawn once it has written its config; until then, it is said.
func TestPlanOfARunThatStarts(t *testing.T) {
	folder := t.TempDir()
	dir := filepath.Join(folder, "r")
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	db, err := checkpoint.Open(rundir.CheckpointPath(dir), checkpoint.OpenOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	c := serve(t, Options{Folder: folder, Plan: func(_ context.Context, config []byte) (Picture, error) {
		return Picture{Table: string(config)}, nil
	}})
	r := c.request(t, "/api/plan?run="+c.id(t, "r"))
	soon, cancel := context.WithTimeout(t.Context(), 2*startEvery)
	defer cancel()
	if _, err := c.s.plan(soon, r); err == nil || !strings.HasPrefix(err.Error(), "the run is just starting, and has not written its config yet") {
		t.Errorf("without a config: %v", err)
	}
	written := make(chan error, 1)
	go func() {
		time.Sleep(2 * startEvery)
		file := filepath.Join(dir, "new") // a run's config is there whole, or not at all
		err := os.WriteFile(file, []byte("name: here"), 0o666)
		written <- cmp.Or(err, os.Rename(file, filepath.Join(dir, rundir.ConfigName)))
	}()
	status, body, _ := c.do(t, r)
	if err := <-written; err != nil || status != 200 || !strings.Contains(body, "name: here") {
		t.Errorf("%d %s, %v", status, body, err)
	}
}
