package rundir_test

import (
	"encoding/binary"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/berth-ml/berth/checkpoint/rundir"
	"github.com/berth-ml/berth/checkpoint/runstate"
)

// An earlier call's events stay, and those of the next go to a file that follows
// it by name, and begins with the step from which they count.
func TestEvents(t *testing.T) {
	dir := t.TempDir()
	norm, loss := 1.5, 0.25
	lines := []rundir.Line{
		runstate.Step{Step: 1, Loss: 2.5, LearningRate: 0.5},
		runstate.Step{Step: 2, Loss: 2, LearningRate: 0.25, GradNorm: &norm},
		runstate.Boundary{Step: 2, ValLoss: &loss, LearningRate: 0.25, SamplesPerS: 100},
	}
	call := func(mode rundir.Mode, upTo int, lines ...rundir.Line) {
		t.Helper()
		f, err := rundir.Open(t.Context(), dir, rundir.OpenOptions{Mode: mode, TensorBoard: true})
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		if _, err := f.Start(t.Context(), configText(t), rundir.Standing{Step: upTo}); err != nil {
			t.Fatal(err)
		}
		for _, l := range lines {
			if err := f.Metrics.Write(l); err != nil {
				t.Fatal(err)
			}
		}
		if lost := f.Metrics.End(); lost != nil {
			t.Errorf("lost %+v", lost)
		}
	}
	expect := func(want ...string) {
		t.Helper()
		if got := events(t, dir); !slices.Equal(got, want) {
			t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
	}
	first := []string{
		"version brain.Event:2", "1: start",
		"1: step/learning_rate 0.5, step/loss 2.5",
		"2: step/grad_norm 1.5, step/learning_rate 0.25, step/loss 2",
		"2: boundary/device_peak_bytes 0, boundary/learning_rate 0.25, boundary/samples_per_s 100, boundary/samples_seen 0, boundary/train_s 0, boundary/val_loss 0.25, boundary/val_s 0",
	}
	call(rundir.Begin, 0, lines...)
	expect(first...)
	save(t, dir, runstate.Progress{Step: 1, Index: 32})
	call(rundir.Resume, 1, lines[1])
	expect(append(first, "version brain.Event:2", "2: start", first[3])...)
	call(rundir.Resume, 1) // without a step there is no file
	expect(append(first, "version brain.Event:2", "2: start", first[3])...)
	put(t, dir, "events.out.tfevents.1.mine", "my own words\n")
	call(rundir.Fresh, 0, lines[0])
	expect(first[:3]...)
	if got := files(t, dir)["events.out.tfevents.1.mine"]; got != "my own words\n" {
		t.Errorf("another's file: %q", got)
	}
}

// events are the records of a run's files of events, in words.
func events(t *testing.T, dir string) (list []string) {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(dir, "events.out.tfevents.*.berth"))
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range names { // in order
		b, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for len(b) > 0 {
			n := binary.LittleEndian.Uint64(b)
			list = append(list, eventText(t, b[12:12+n]))
			b = b[16+n:]
		}
	}
	return list
}

func eventText(t *testing.T, b []byte) string {
	t.Helper()
	step, text := uint64(0), ""
	for f, v := range fields(t, b) {
		switch f {
		case 2:
			step, _ = protowire.ConsumeVarint(v)
		case 3:
			return "version " + string(v)
		case 5:
			var all []string
			for _, v := range fields(t, v) {
				all = append(all, scalarText(t, v))
			}
			text = strings.Join(all, ", ")
		case 7:
			text = "start"
		}
	}
	return fmt.Sprintf("%d: %s", step, text)
}

func scalarText(t *testing.T, b []byte) (text string) {
	for f, v := range fields(t, b) {
		switch f {
		case 1:
			text = string(v)
		case 2:
			bits, _ := protowire.ConsumeFixed32(v)
			text += fmt.Sprintf(" %v", math.Float32frombits(bits))
		}
	}
	return text
}

// fields are the fields of a message, by number, in order: of texts and messages,
// the bytes in them.
func fields(t *testing.T, b []byte) func(yield func(int, []byte) bool) {
	return func(yield func(int, []byte) bool) {
		for len(b) > 0 {
			field, kind, n := protowire.ConsumeTag(b)
			size := protowire.ConsumeFieldValue(field, kind, b[max(0, n):])
			if n < 0 || size < 0 {
				t.Fatalf("bad message %x", b)
			}
			v := b[n : n+size]
			if kind == protowire.BytesType {
				v, _ = protowire.ConsumeBytes(v)
			}
			if !yield(int(field), v) {
				return
			}
			b = b[n+size:]
		}
	}
}
