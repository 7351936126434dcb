package main

import (
	"context"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/berth-ml/berth"
	"github.com/berth-ml/berth/configs"
)

// A signal while the data is read, or a checkpoint, stops the run like one
// between steps.
func TestSignalBeforeTheFirstStep(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "data.csv")
	if err := os.WriteFile(path, []byte("a,kind\n1,x\n2,y\n3,x\n4,y\n5,x\n6,y\n7,x\n8,y\n9,x\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	over, cancel := context.WithCancel(t.Context())
	cancel()
	f := &trainFlags{options: berth.TrainOptions{Dir: filepath.Join(dir, "run")}}
	for _, text := range []string{
		"data: {source: csv, path: " + path + ", label: kind}\nmodel: {preset: mlp, hidden: [8]}\n",
		"data: digits\nmodel: {preset: mlp, hidden: [8]}\n",
	} {
		c, err := configs.Parse("test.yaml", []byte(text), configs.Overlay{})
		if err != nil {
			t.Fatal(err)
		}
		err = train(over, io.Discard, c, f)
		if code := exitCode(err); code != exitStopped || !strings.Contains(err.Error(), "continue with") {
			t.Errorf("exit code %d: %v", code, err)
		}
		f.options.Resume = err != nil && strings.Contains(err.Error(), "and saved")
	}
}

// The second signal says what of the run stays.
func TestStoppedAtOnce(t *testing.T) {
	for first, want := range map[string]string{leaves: "stopped at once", saves: "stopped at once: what was saved so far is whole, what came since is lost"} {
		if got := atOnce(first); got != want {
			t.Errorf("after %q: %q, want %q", first, got, want)
		}
	}
}

func TestMany(t *testing.T) {
	for n, want := range map[int]string{0: "0 steps", 1: "1 step", 2: "2 steps", 12345: "12345 steps"} {
		if got := many(n, "step"); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}
