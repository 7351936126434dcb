package trace_test

import (
	"testing"
	"time"

	"github.com/berth-ml/berth/engine/device"
	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/executor"
	"github.com/berth-ml/berth/executor/schedule"
	"github.com/berth-ml/berth/executor/trace"
	"github.com/berth-ml/berth/internal/smallrun"
	"github.com/berth-ml/berth/residency/ledger"
)

// A step counts from the end of the one before; work of another step on its devices is work, a wait is none, and the part of a copy
// outside of the step does not count.
func TestStepTrace(t *testing.T) {
	r := smallrun.New(t, "cpu")
	x, err := r.Plan.Predict(nil)
	if err != nil {
		t.Fatal(err)
	}
	var spans trace.Spans
	spans.Begin()
	zero := time.Now()
	at := func(ms int) time.Time { return zero.Add(time.Duration(ms) * time.Millisecond) }
	work := &device.Work{Name: "matmul", Nodes: []*graph.Node{{Out: []*graph.Value{{Name: "fc.matmul"}}}}}
	event := func(seq uint64) device.Event { return device.Event{Queue: &queue{}, Seq: seq} }
	add := func(id device.ID, stream, what string, start, end, waited int, e device.Event) {
		spans.Add(device.Span{Device: id, Stream: stream, What: what, Start: at(start), End: at(end), Waited: time.Duration(waited) * time.Millisecond, Event: e})
	}
	own, next, old, copied, much := event(1), event(2), event(3), event(4), event(5)
	add("cpu:0", "compute", "s0.U", -50, 20, 0, old) // of the step before: this one begins at 20
	spans.Launched(executor.Launched{Event: own, Net: "train", Step: 7, Task: "s0.FB0", Kinds: []schedule.Kind{schedule.Forward, schedule.Backward}})
	spans.Launched(executor.Launched{Event: next, Net: "train", Step: 8, Task: "s0.FB0"})
	add("cpu:0", "compute", "s0.FB", 20, 100, 30, own)
	other := event(6)
	spans.Launched(executor.Launched{Event: other, Net: "train", Step: 7, Task: "s1.U0", Kinds: []schedule.Kind{schedule.Update}})
	add("cpu:1", "compute", "s1.U", 10, 120, 0, other)
	add("cpu:0", "compute", "s0.FB", 110, 200, 0, next)
	spans.Moved(ledger.Row{Step: 6, Kind: ledger.Peer, Value: "x", From: "cpu:1", To: "cpu:0", Bytes: 8, Event: copied})
	add("cpu:0", "peer", "peer", 95, 105, 0, copied) // for 5 ms beside work
	spans.Moved(ledger.Row{Step: 7, Kind: ledger.CopyIn, Value: "y", From: "host", To: "cpu:0", Bytes: 4, Event: much})
	add("cpu:0", "copy-in", "copy-in", 101, 140, 0, much) // its last 20 ms are not of this step
	add("cpu:1", "copy-in", "copy-in", 300, 400, 0, event(9))
	for range 25_000 {
		spans.Kernel(device.KernelSpan{Work: work, Launch: own, Start: at(60), End: at(61)})
	}
	spans.Kernel(device.KernelSpan{Work: work, Launch: own, Start: at(61), End: at(90)})
	spans.Kernel(device.KernelSpan{Work: work, Launch: next, Start: at(120), End: at(121)})
	spans.End()
	s := spans.StepTrace(trace.StepOf{Net: "train", Ticket: 7, Before: 100, Model: "small", Plan: r.Plan, Predicted: x})
	m, ms := s.Measured, time.Millisecond
	// The first launch is that of cpu:1, at 10 ms. On two devices of 100 ms: 50 ms of work and 10 of the next step on cpu:0, all on
	// cpu:1.
	if s.Step != 107 || m.Begin != 10*ms || m.End != 110*ms || m.Bubble < 0.1999 || m.Bubble > 0.2001 {
		t.Errorf("step %d from %v to %v, bubble %v", s.Step, m.Begin, m.End, m.Bubble)
	}
	// Of x 5 ms beside the end of the launch, which had waited before; of y 10 ms beside the next step.
	if m.Hidden+m.Exposed != 29*ms || m.Hidden < 10*ms {
		t.Errorf("copies hidden for %v, and not for %v", m.Hidden, m.Exposed)
	}
	counts, total := map[string]int{}, len(m.Spans)
	for i, x := range m.Spans {
		counts[x.Kind]++
		if i > 0 && (x.Lane < m.Spans[i-1].Lane || x.Lane == m.Spans[i-1].Lane && x.Start < m.Spans[i-1].Start) {
			t.Fatalf("span %d is not in order", i)
		}
		switch lane := m.Lanes[x.Lane]; {
		case x.Kind == "launch" && x.Name == "s0.FB0" && !x.Other && (x.Passes != "FB" || x.Waited != 30*ms || x.Start != 10*ms),
			x.Kind == "wait" && (x.Name != "s0.FB0" || lane.Stream != "compute"),
			x.Name == "x" && (x.Other || x.Bytes != 8 || x.From != "cpu:1" || lane.Stream != "peer"),
			x.Name == "y" && !x.Other,
			x.Kind == "launch" && x.Name == "s0.U" && !x.Other:
			t.Errorf("%+v in %v", x, lane)
		}
	}
	if total != 20_000 || s.LeftOut != 25_001-counts["kernel"] || counts["launch"] != 4 || counts["peer"] != 1 || counts["copy-in"] != 1 || counts["wait"] == 0 {
		t.Errorf("%d spans, %v, %d left out", total, counts, s.LeftOut)
	}
	if p := s.Predicted; len(p.Spans) != len(x.Launches) || p.Bubble != x.Bubble || (p.End-p.Begin).Seconds() < x.Seconds*0.99 || (p.End-p.Begin).Seconds() > x.Seconds*1.01 {
		t.Errorf("predicted %+v", p)
	}
}
