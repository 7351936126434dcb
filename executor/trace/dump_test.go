package trace_test

import (
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/berth-ml/berth/engine/device"
	"github.com/berth-ml/berth/executor"
	"github.com/berth-ml/berth/executor/schedule"
	"github.com/berth-ml/berth/executor/trace"
	"github.com/berth-ml/berth/internal/smallrun"
	"github.com/berth-ml/berth/residency/ledger"
)

// plainly writes a file in its place.
func plainly(path string, write func(io.Writer) error) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	defer f.Close()
	return write(f)
}

// queue is a stream's, told from others by its address.
type queue struct {
	device.Queue
	_ byte
}

func TestDump(t *testing.T) {
	r := smallrun.New(t, "cpu")
	order, err := schedule.New(schedule.Spec{Name: "1f1b", Stages: 1, Microbatches: 1})
	if err != nil {
		t.Fatal(err)
	}
	var spans trace.Spans
	spans.Add(device.Span{What: "too early"})
	dir := filepath.Join(t.TempDir(), "dump")
	d, err := trace.NewDump(dir, "small", r.Plan, order, &spans, plainly)
	if err != nil {
		t.Fatal(err)
	}
	trace.Debug{}.Transfers(d)(ledger.Row{Step: 3, Value: "fc.weight", Cause: "stale", Bytes: 99})
	now := time.Now()
	for i := range executor.Ticket(2) {
		done := device.Event{Queue: &queue{}, Seq: uint64(i)}
		spans.Launched(executor.Launched{Event: done, Net: "train", Step: i + 1, Task: "s0.FBU0", Kinds: []schedule.Kind{schedule.Backward}})
		spans.Add(device.Span{What: "s0.FBU", Device: "cpu:0", Stream: "compute", Start: now, End: now.Add(time.Millisecond), Event: done})
	}
	x, err := r.Plan.Predict(nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := d.Draw("train", x); err != nil {
		t.Fatal(err)
	}
	failed := &executor.TaskError{Task: "s0.B0", Device: "cpu:0", Schedule: order, Action: schedule.Action{Kind: schedule.Backward}, Err: errors.New("boom")}
	if err := d.Failure(7, failed); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := d.Close(); err != nil {
			t.Fatal(err)
		}
	}
	text := map[string]string{}
	list, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range list {
		b, err := os.ReadFile(filepath.Join(dir, f.Name()))
		if err != nil || len(b) == 0 || !slices.Contains(trace.DumpFiles(), f.Name()) {
			t.Errorf("%s has %d bytes, %v", f.Name(), len(b), err)
		}
		text[f.Name()] = string(b)
	}
	if len(list) != len(trace.DumpFiles()) {
		t.Errorf("%d files, want %v", len(list), trace.DumpFiles())
	}
	if !strings.Contains(text["ledger.csv"], "3,copy-in,,fc.weight,weight,,,99,stale\n") {
		t.Errorf("ledger:\n%s", text["ledger.csv"])
	}
	if want := "step 7: s0.B0 on cpu:0: boom\n\nschedule 1f1b stages 1 microbatches 1\n0: 0F0   [0B0] 0U\n"; text["failure.txt"] != want {
		t.Errorf("failure.txt: %q, want %q", text["failure.txt"], want)
	}
	var events struct{ TraceEvents []map[string]any }
	if !strings.Contains(text["step.svg"], "Measured: step 2") {
		t.Errorf("step.svg:\n%s", text["step.svg"])
	}
	if err := json.Unmarshal([]byte(text["trace.json"]), &events); err != nil || len(events.TraceEvents) != 6 { // and name and rank of device and stream
		t.Errorf("%v, trace:\n%s", err, text["trace.json"])
	}
	if d, err = trace.NewDump(dir, "small", r.Plan, order, &spans, plainly); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"failure.txt", "step.svg"} {
		if _, err := os.Stat(filepath.Join(dir, name)); err == nil {
			t.Errorf("a new dump has the %s of the one before", name)
		}
	}
	if err := d.Close(); err != nil {
		t.Error(err)
	}
	full := func(path string, write func(io.Writer) error) error { // a disk without room for the trace
		if filepath.Base(path) == "trace.json" {
			return errors.New("no space left")
		}
		return plainly(path, write)
	}
	if d, err = trace.NewDump(dir, "small", r.Plan, order, &spans, full); err != nil {
		t.Fatal(err)
	}
	if err := d.Close(); err == nil || err.Error() != "the dump in "+dir+" is incomplete: no space left" {
		t.Errorf("a full disk: %v", err)
	}
	var none *trace.Dump
	none.Transfer(ledger.Row{})
	if err := none.Close(); err != nil {
		t.Error(err)
	}
}
