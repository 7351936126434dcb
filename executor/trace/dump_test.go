package trace_test

import (
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/berth-ml/berth/engine/device"
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

func TestDump(t *testing.T) {
	r := smallrun.New(t, "cpu")
	order, err := schedule.New(schedule.Spec{Name: "1f1b", Stages: 1, Microbatches: 1})
	if err != nil {
		t.Fatal(err)
	}
	var spans trace.Spans
	spans.Add(device.Span{What: "too early"})
	dir := filepath.Join(t.TempDir(), "dump")
	d, err := trace.NewDump(dir, r.Plan, order, &spans, plainly)
	if err != nil {
		t.Fatal(err)
	}
	trace.Debug{}.Transfers(d)(ledger.Row{Step: 3, Value: "fc.weight", Cause: "stale", Bytes: 99})
	now := time.Now()
	spans.Add(device.Span{What: "matmul", Device: "cpu:0", Stream: "compute", Start: now, End: now.Add(time.Millisecond)})
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
	var events struct{ TraceEvents []map[string]any }
	if err := json.Unmarshal([]byte(text["trace.json"]), &events); err != nil || len(events.TraceEvents) != 3 { // and names of device and stream
		t.Errorf("%v, trace:\n%s", err, text["trace.json"])
	}
	var none *trace.Dump
	none.Transfer(ledger.Row{})
	if err := none.Close(); err != nil {
		t.Error(err)
	}
}
