package rundir_test

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/berth-ml/berth/checkpoint/rundir"
	"github.com/berth-ml/berth/checkpoint/runstate"
)

// smallDisk is a file system of 8 MiB.
func smallDisk(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=8m"); err != nil {
		t.Skip("mount: ", err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(dir, syscall.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	return dir
}

// fill leaves no room on a disk.
func fill(t *testing.T, path string) {
	t.Helper()
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for err == nil {
		_, err = f.Write(make([]byte, 4096))
	}
	if !errors.Is(err, syscall.ENOSPC) {
		t.Fatal(err)
	}
}

// A run that finds no room for its first file leaves nothing.
func TestOpenOnAFullDisk(t *testing.T) {
	disk := smallDisk(t)
	fill(t, filepath.Join(disk, "full"))
	for _, room := range []int64{4 << 10, 8 << 10, 16 << 10, 20 << 10} {
		if err := os.Truncate(filepath.Join(disk, "full"), 8<<20-room); err != nil {
			t.Fatal(err)
		}
		dir := filepath.Join(disk, "run")
		if f, err := rundir.Open(t.Context(), dir, rundir.OpenOptions{}); !errors.Is(err, syscall.ENOSPC) {
			t.Errorf("%d bytes are left: opened %v, %v", room, f, err)
		}
		if _, err := os.Lstat(dir); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%d bytes are left: the folder is there, %v", room, err)
		}
	}
}

// While the disk is full, no line is cut. Once there is room the file has all lines,
// also those beyond the text that may wait.
func TestMetricsOnAFullDisk(t *testing.T) {
	dir := filepath.Join(smallDisk(t), "run")
	if err := os.Mkdir(dir, 0o777); err != nil {
		t.Fatal(err)
	}
	save(t, dir, runstate.Progress{Step: 3, Index: 3 * 32})
	var said notes
	f, err := rundir.Open(t.Context(), dir, rundir.OpenOptions{Mode: rundir.Resume, Warn: said.add})
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.Start(t.Context(), configText(t), rundir.Standing{Step: 3}); err != nil {
		t.Fatal(err)
	}
	const last = 40_000
	room := filepath.Join(dir, "..", "room")
	fill(t, room)
	var want strings.Builder
	write := func(line rundir.Line) {
		b, err := rundir.TextOf(line)
		if err = cmp.Or(err, f.Metrics.Write(line)); err != nil {
			t.Fatal(err)
		}
		want.Write(append(b, '\n'))
	}
	for step := 4; step <= last; step++ {
		write(runstate.Step{Step: step, Epoch: step / 1000, Loss: float64(step%7) / 4})
		if step%1000 == 0 {
			write(runstate.Boundary{Epoch: step / 1000, Step: step, SamplesPerS: float64(step)})
			f.Metrics.Flush()
		}
	}
	path := filepath.Join(dir, rundir.MetricsName)
	if text, err := os.ReadFile(path); err != nil || len(text) > 0 && !strings.HasSuffix(string(text), "}\n") {
		t.Errorf("a line is cut: %d bytes, %v", len(text), err)
	}
	if len(said) != 1 || !strings.Contains(said[0], "no space left") {
		t.Errorf("said %q", said)
	}
	if err := os.Remove(room); err != nil {
		t.Fatal(err)
	}
	f.Metrics.Flush()
	text, err := os.ReadFile(path)
	if err != nil || string(text) != want.String() {
		t.Errorf("%v, %d bytes of metrics, expected %d", err, len(text), want.Len())
	}
	if lost := f.Metrics.End(); lost != nil || want.Len() < 5<<18 || len(said) != 1 {
		t.Errorf("lost %+v of %d bytes, said %q", lost, want.Len(), said)
	}
	if got := f.Metrics.Losses(); len(got) != last-3 || got[0] != 1 {
		t.Errorf("%d losses", len(got))
	}
}

// What waits on a full disk is bounded: of very many epochs the newest are lost,
// and named.
func TestMetricsOfTooManyEpochs(t *testing.T) {
	dir := filepath.Join(smallDisk(t), "run")
	var said notes
	f, err := rundir.Open(t.Context(), dir, rundir.OpenOptions{Warn: said.add})
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.Start(t.Context(), configText(t), rundir.Standing{}); err != nil {
		t.Fatal(err)
	}
	room := filepath.Join(dir, "..", "room")
	fill(t, room)
	const last = 40_000
	for step := 1; step <= last; step++ {
		if err := f.Metrics.Write(runstate.Boundary{Epoch: step - 1, Step: step}); err != nil {
			t.Fatal(err)
		}
	}
	f.Metrics.Flush()
	if err := os.Remove(room); err != nil {
		t.Fatal(err)
	}
	lost := f.Metrics.End()
	text, err := os.ReadFile(filepath.Join(dir, rundir.MetricsName))
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Count(string(text), "\n")
	if lost == nil || lines < 20_000 || *lost != (rundir.Lost{Lines: last - lines, FirstStep: lines + 1, LastStep: last}) {
		t.Errorf("%d lines, lost %+v", lines, lost)
	}
	if len(said) != 2 || !strings.Contains(said[1], "metrics.jsonl lacks") {
		t.Errorf("said %q", said)
	}
}

// Lines that still wait at the end are lost, too.
func TestMetricsEndOnAFullDisk(t *testing.T) {
	dir := smallDisk(t)
	f, err := rundir.Open(t.Context(), dir, rundir.OpenOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.Start(t.Context(), configText(t), rundir.Standing{}); err != nil {
		t.Fatal(err)
	}
	fill(t, filepath.Join(dir, "room"))
	for step := range 10 {
		if err := f.Metrics.Write(runstate.Step{Step: step + 1, Loss: 0.5}); err != nil {
			t.Fatal(err)
		}
	}
	if lost := f.Metrics.End(); lost == nil || *lost != (rundir.Lost{Lines: 10, FirstStep: 1, LastStep: 10}) {
		t.Errorf("lost %+v", lost)
	}
}

// While the disk is full, records wait up to a bound. Later ones are lost, which is
// said at the end, and no record is cut.
func TestEventsOnAFullDisk(t *testing.T) {
	dir := filepath.Join(smallDisk(t), "run")
	var said notes
	f, err := rundir.Open(t.Context(), dir, rundir.OpenOptions{Warn: said.add, TensorBoard: true})
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.Start(t.Context(), configText(t), rundir.Standing{}); err != nil {
		t.Fatal(err)
	}
	room := filepath.Join(dir, "..", "room")
	fill(t, room)
	const last = 20_000
	for step := 1; step <= last; step++ {
		if err := f.Metrics.Write(runstate.Step{Step: step, Loss: 1}); err != nil {
			t.Fatal(err)
		}
	}
	f.Metrics.Flush()
	if err := os.Remove(room); err != nil {
		t.Fatal(err)
	}
	if lost := f.Metrics.End(); lost != nil {
		t.Errorf("metrics lost %+v", lost)
	}
	list := events(t, dir)
	want := fmt.Sprintf("lacks %d of its records, of steps %d to %d", last-(len(list)-2), len(list)-1, last)
	if n := len(said); n != 3 || !strings.Contains(said[n-1], want) {
		t.Errorf("%d records, said %q; want %q", len(list), said, want)
	}
}
