package train_test

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/berth-ml/berth"
	"github.com/berth-ml/berth/checkpoint/rundir"
	"github.com/berth-ml/berth/internal/runtest"
)

// instead makes what this process writes to one file go to another.
func instead(t *testing.T, from, to string) {
	t.Helper()
	f, err := os.OpenFile(to, os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	fds, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range fds {
		fd, err := strconv.Atoi(e.Name())
		if err != nil {
			t.Fatal(err)
		}
		name, err := os.Readlink("/proc/self/fd/" + e.Name())
		if err == nil && name == from && fd != int(f.Fd()) {
			if err := syscall.Dup3(int(f.Fd()), fd, syscall.O_CLOEXEC); err != nil {
				t.Fatal(err)
			}
			return
		}
	}
	t.Fatalf("%s is not open", from)
}

// Where metrics cannot be written, the run says so, goes on and saves, and
// writes them once it can.
func TestMetricsWaitForRoom(t *testing.T) {
	const full = "/dev/full"
	dir, whole := t.TempDir(), t.TempDir()
	runtest.Train(t, runtest.Open(t, runtest.Everything), berth.TrainOptions{Dir: whole})
	path := filepath.Join(dir, "metrics.jsonl")
	var saved []int
	var notes []string
	runtest.Train(t, runtest.Open(t, runtest.Everything), berth.TrainOptions{Dir: dir, Observer: &berth.Observer{
		Started: func(berth.Start) { instead(t, path, full) },
		Saved: func(s berth.Saved) {
			if saved = append(saved, s.Step); s.Step == 22 {
				instead(t, full, path)
			}
		},
		Note: func(text string) { notes = append(notes, text) },
	}})
	said := slices.DeleteFunc(notes, func(s string) bool { return !strings.Contains(s, "no space left") })
	if len(said) != 1 || !strings.Contains(said[0], "metrics.jsonl cannot be written for now") {
		t.Errorf("notes %q", said)
	}
	if !slices.Equal(saved, []int{11, 22, 33}) {
		t.Errorf("saved at %v", saved)
	}
	for _, d := range []string{dir, whole} {
		text, err := os.ReadFile(filepath.Join(d, "metrics.jsonl"))
		if err != nil || bytes.Count(text, []byte("\n")) != 36 {
			t.Errorf("%v, metrics:\n%s", err, text)
		}
	}
}

// A resumed run takes no room to drop the metrics of steps that it does again.
func TestMetricsAreCutInPlace(t *testing.T) {
	dir := t.TempDir()
	path, other := filepath.Join(dir, "metrics.jsonl"), filepath.Join(dir, "other")
	runtest.Train(t, runtest.Open(t, runtest.Everything), berth.TrainOptions{Dir: dir, MaxSteps: 5})
	if err := os.Link(path, other); err != nil {
		t.Fatal(err)
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteString("{\"step\":6,\"epoch\":0,\"loss\":1}\n{\"step\":7,"); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	// Neither metrics.jsonl.berth-new nor config.yaml.berth-new can be made.
	for _, name := range []string{path + ".berth-new/x", filepath.Join(dir, "config.yaml.berth-new/x")} {
		if err := os.MkdirAll(name, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	var notes []string
	o := berth.TrainOptions{Dir: dir, Resume: true, MaxSteps: 5, Observer: &berth.Observer{Note: func(text string) { notes = append(notes, text) }}}
	rep := runtest.Train(t, runtest.Open(t, runtest.Everything, "checkpoint.keep.last=1"), o)
	if len(rep.Losses) != 5 || !slices.ContainsFunc(notes, func(s string) bool { return strings.Contains(s, "config.yaml stays as it was") }) {
		t.Errorf("losses %v, notes %q", rep.Losses, notes)
	}
	if text, err := os.ReadFile(other); err != nil || bytes.Count(text, []byte("\n")) != 5 {
		t.Errorf("%v, metrics:\n%s", err, text)
	}
}

// Metrics that could never be written are named in the report, that of a
// resumed run, too.
func TestLostMetricsAreReported(t *testing.T) {
	dir := t.TempDir()
	var warned, noted []string
	note := func(text string) { noted = append(noted, text) }
	rep := runtest.Train(t, runtest.Open(t, runtest.Everything), berth.TrainOptions{Dir: dir, MaxSteps: 22, Observer: &berth.Observer{
		Started: func(berth.Start) { instead(t, filepath.Join(dir, "metrics.jsonl"), "/dev/full") },
		Note:    note, Warn: func(text string) { warned = append(warned, text) },
	}})
	want := rundir.Lost{Lines: 24, FirstStep: 1, LastStep: 22}
	if rep.MetricsLost == nil || *rep.MetricsLost != want || len(rep.Losses) != 22 {
		t.Errorf("the report says %+v, and has %d losses", rep.MetricsLost, len(rep.Losses))
	}
	if len(warned) != 2 || !strings.Contains(warned[0], "no space left") || !strings.Contains(warned[1], "lacks 24 of its lines, of steps 1 to 22") {
		t.Errorf("warned %q, noted %q", warned, noted)
	}
	rep = runtest.Train(t, runtest.Open(t, runtest.Everything), berth.TrainOptions{Dir: dir, Resume: true})
	if rep.MetricsLost == nil || *rep.MetricsLost != want || rep.Steps != 33 {
		t.Errorf("resumed, the report says %+v, %d steps", rep.MetricsLost, rep.Steps)
	}
}
