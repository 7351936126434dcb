package trace_test

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/berth-ml/berth/engine/device"
	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/executor"
	"github.com/berth-ml/berth/executor/schedule"
	"github.com/berth-ml/berth/executor/trace"
	"github.com/berth-ml/berth/internal/smallrun"
	"github.com/berth-ml/berth/internal/svg/svgtest"
)

// A launch is named after its task, however late that is told; a kernel stands in its
// launch's lane, and other operations keep the device's name. Nothing is collected
// after the end.
func TestSpans(t *testing.T) {
	var spans trace.Spans
	spans.Begin()
	zero := time.Now()
	at := func(ms int) time.Time { return zero.Add(time.Duration(ms) * time.Millisecond) }
	done := device.Event{Queue: &queue{}, Seq: 7}
	work := &device.Work{Name: "matmul", Nodes: []*graph.Node{{Out: []*graph.Value{{Name: "fc.matmul"}}}}}
	spans.Kernel(device.KernelSpan{Work: work, Launch: done, Start: at(2), End: at(3)})
	spans.Kernel(device.KernelSpan{Work: work, Launch: device.Event{Queue: &queue{}, Seq: 7}}) // another run's
	spans.Add(device.Span{Device: "cpu:10", Stream: "compute", What: "s0.F", Start: at(1), End: at(4), Event: done})
	spans.Add(device.Span{Device: "cpu:2", Stream: "store", What: trace.StreamIn, Start: at(1), End: at(2)})
	spans.Launched(executor.Launched{Event: done, Net: "train", Step: 3, Task: "s0.F5"})
	spans.End()
	spans.Add(device.Span{Device: "cpu:3"})
	var b bytes.Buffer
	if err := spans.Write(&b); err != nil {
		t.Fatal(err)
	}
	var got struct {
		TraceEvents []struct {
			Name, Cat, Ph string
			PID, TID      int
			Dur           float64
			Args          map[string]any
		}
	}
	if err := json.Unmarshal(b.Bytes(), &got); err != nil {
		t.Fatal(err)
	}
	type span struct {
		name, cat string
		pid, tid  int
		ms        float64
	}
	var list []span
	for _, e := range got.TraceEvents {
		if e.Ph == "X" {
			list = append(list, span{e.Name, e.Cat, e.PID, e.TID, e.Dur / 1e3})
		}
		if e.Cat == "launch" && e.Args["step"] != 3.0 {
			t.Errorf("the launch has %v", e.Args)
		}
	}
	want := []span{{"s0.F5", "launch", 2, 2, 3}, {"stream-in", "stream-in", 1, 1, 1}, {"matmul", "kernel", 2, 2, 1}}
	if len(list) != len(want) || list[0] != want[0] || list[1] != want[1] || list[2] != want[2] {
		t.Errorf("%v, expected %v", list, want)
	}
}

// pieces is a writer that knows its largest write.
type pieces struct{ all, largest int }

func (p *pieces) Write(b []byte) (int, error) {
	p.all, p.largest = p.all+len(b), max(p.largest, len(b))
	return len(b), nil
}

// A trace is written piece by piece, and never held whole.
func TestSpansInPieces(t *testing.T) {
	var spans trace.Spans
	spans.Begin()
	const many = 10_000
	for i := range many {
		spans.Add(device.Span{Device: "cpu:0", Stream: "compute", What: "s0.F", Start: time.Now(), End: time.Now(), Event: device.Event{Seq: uint64(i)}})
	}
	var p pieces
	if err := spans.Write(&p); err != nil || p.all < 50*many || p.largest > 64<<10 {
		t.Errorf("%d bytes, the largest write has %d; %v", p.all, p.largest, err)
	}
}

// A launch that waited is drawn with its waits: the longest gaps between its kernels, up to the
// time that it waited.
func TestWaitsAreDrawn(t *testing.T) {
	r := smallrun.New(t, "cpu")
	order, err := schedule.New(schedule.Spec{Name: "1f1b", Stages: 1, Microbatches: 1})
	if err != nil {
		t.Fatal(err)
	}
	var spans trace.Spans
	dir := t.TempDir()
	d, err := trace.NewDump(dir, "small", r.Plan, order, &spans, plainly)
	if err != nil {
		t.Fatal(err)
	}
	zero := time.Now()
	at := func(ms int) time.Time { return zero.Add(time.Duration(ms) * time.Millisecond) }
	work := &device.Work{Name: "matmul", Nodes: []*graph.Node{{Out: []*graph.Value{{Name: "fc.matmul"}}}}}
	for i := range executor.Ticket(2) {
		done := device.Event{Queue: &queue{}, Seq: uint64(i)}
		spans.Launched(executor.Launched{Event: done, Net: "train", Step: i + 1, Task: "s0.FBU0", Kinds: []schedule.Kind{schedule.Backward}})
		for _, k := range [][2]int{{1, 20}, {50, 70}, {71, 99}} { // gaps of 1, 30, 1 and 1 ms
			spans.Kernel(device.KernelSpan{Work: work, Launch: done, Start: at(k[0]), End: at(k[1])})
		}
		spans.Add(device.Span{What: "s0.FBU", Device: "cpu:0", Stream: "compute", Start: zero, End: at(100), Waited: 25 * time.Millisecond, Event: done})
	}
	x, err := r.Plan.Predict(nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := d.Draw("train", x); err != nil {
		t.Fatal(err)
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(dir, "step.svg"))
	if err != nil {
		t.Fatal(err)
	}
	hint := "<title>s0.FBU0: 100 ms, from 0 s on; it waits for 25 ms of that</title>"
	if n := strings.Count(string(text), hint); n != 3 { // work, the wait, work
		t.Errorf("%d of 3 parts of the launch are drawn:\n%s", n, text)
	}
	svgtest.Check(t, string(text))
}
