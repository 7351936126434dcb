package timing_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/berth-ml/berth/engine/device"
	"github.com/berth-ml/berth/executor/timing"
	"github.com/berth-ml/berth/internal/busy"
	"github.com/berth-ml/berth/internal/smallrun"
)

// Times of a busy moment serve the book that measured them, with one note, and the next one measures anew. Others are kept.
func TestBusyTimesAreNotKept(t *testing.T) {
	r := smallrun.New(t, "cpu:2")
	var on []device.Spec
	for _, d := range r.Devices {
		on = append(on, d.Spec())
	}
	path := filepath.Join(t.TempDir(), "costs.json")
	defer func() { busy.Assume = nil }()
	for _, is := range []bool{true, false} {
		busy.Assume = func() bool { return is }
		b := timing.NewBook(timing.BookOptions{Path: path})
		for range 2 {
			if err := b.Measure(t.Context(), r.Devices, r.Plan, false, false); err != nil {
				t.Fatal(err)
			}
		}
		task := tasks(t, r)[0]
		if _, known := b.Seconds(on, task.Device, task.Variant.Graph, false); !known {
			t.Errorf("busy %v: the book does not know what it measured", is)
		}
		_, err := os.Stat(path)
		notes := b.Notes()
		if kept := err == nil; kept == is || (len(notes) == 1 && strings.HasPrefix(notes[0], "the machine is busy")) != is || len(notes) > 1 {
			t.Errorf("busy %v: the times are kept: %v; notes %q", is, kept, notes)
		}
	}
}
