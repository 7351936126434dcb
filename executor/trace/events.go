package trace

import (
	"bufio"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"iter"
	"slices"
	"time"

	"github.com/berth-ml/berth/engine/device"
	"github.com/berth-ml/berth/residency/ledger"
)

// event is one entry of the Chrome trace event format: a lane per stream, a
// group per device.
type event struct {
	Name string         `json:"name"`
	Cat  string         `json:"cat,omitempty"` // launch, kernel, step, or what copied, as in device.Span
	Ph   string         `json:"ph"`
	PID  int            `json:"pid"`
	TID  int            `json:"tid"`
	TS   float64        `json:"ts"` // microseconds
	Dur  float64        `json:"dur,omitempty"`
	Args map[string]any `json:"args,omitempty"`
}

// lane is a stream of a device.
type lane struct {
	device device.ID
	stream string
}

// stepsLane has the steps as the training loop saw them.
var stepsLane = lane{"training", "steps"}

// streamOrder is the order of a device's lanes.
var streamOrder = []string{device.ComputeStream, "copy-in", "peer", "copy-out"}

// compare orders lanes: steps first, then by device and stream.
func (l lane) compare(o lane) int {
	group := func(l lane) int {
		if l == stepsLane {
			return 0
		}
		return 1
	}
	rank := func(s string) int {
		if i := slices.Index(streamOrder, s); i >= 0 {
			return i
		}
		return len(streamOrder)
	}
	return cmp.Or(cmp.Compare(group(l), group(o)), cmp.Compare(len(l.device), len(o.device)), cmp.Compare(l.device, o.device),
		cmp.Compare(rank(l.stream), rank(o.stream)), cmp.Compare(l.stream, o.stream))
}

// Write writes the spans as Chrome trace events, one at a time: all of them at once
// take several times the memory of the spans.
func (t *Spans) Write(w io.Writer) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	out := bufio.NewWriter(w)
	begin := `{"traceEvents":[`
	for e := range t.events() {
		text, err := json.Marshal(e)
		if err != nil {
			return err
		}
		out.WriteString(begin) // Flush gives the error
		out.Write(text)
		begin = ","
	}
	if begin != "," {
		out.WriteString(begin)
	}
	out.WriteString("]}\n")
	return out.Flush()
}

// events are the names of the lanes, then each lane's spans. A kernel stands in the
// lane of its launch.
func (t *Spans) events() iter.Seq[event] {
	return func(yield func(event) bool) {
		lanes, launches := t.lanes()
		names, at := named(lanes)
		timed := func(l lane, e event, start, end time.Time) bool {
			e.Ph, e.PID, e.TID = "X", at[l].PID, at[l].TID
			e.TS, e.Dur = float64(start.Sub(t.start).Nanoseconds())/1e3, float64(end.Sub(start).Nanoseconds())/1e3
			return yield(e)
		}
		for _, e := range names {
			if !yield(e) {
				return
			}
		}
		for _, s := range t.steps {
			if !timed(stepsLane, event{Name: fmt.Sprintf("step %d", s.step), Cat: "step", Args: map[string]any{"step": s.step}}, s.start, s.end) {
				return
			}
		}
		for _, s := range t.spans {
			if !timed(lane{s.Device, s.Stream}, t.describe(s), s.Start, s.End) {
				return
			}
		}
		for _, k := range t.kernels {
			l, ended := launches[k.Launch]
			if !ended {
				continue
			}
			last := k.Work.Nodes[len(k.Work.Nodes)-1]
			if !timed(l, event{Name: k.Work.Name, Cat: "kernel", Args: map[string]any{"out": last.Out[0].Name}}, k.Start, k.End) {
				return
			}
		}
	}
}

// lanes lists, in order, the lanes that have spans. launches has the lane of each launch.
func (t *Spans) lanes() (list []lane, launches map[device.Event]lane) {
	seen, launches := map[lane]bool{}, map[device.Event]lane{}
	if len(t.steps) > 0 {
		seen[stepsLane] = true
	}
	for _, s := range t.spans {
		l := lane{s.Device, s.Stream}
		seen[l], launches[s.Event] = true, l
	}
	for l := range seen {
		list = append(list, l)
	}
	slices.SortFunc(list, lane.compare)
	return list, launches
}

// named are the events that name lanes and devices, and each lane's event.
func named(lanes []lane) (out []event, at map[lane]event) {
	at = map[lane]event{}
	pid := 0
	for i, l := range lanes {
		if i == 0 || l.device != lanes[i-1].device {
			pid++
			out = append(out, event{Name: "process_name", Ph: "M", PID: pid, Args: map[string]any{"name": string(l.device)}})
			out = append(out, event{Name: "process_sort_index", Ph: "M", PID: pid, Args: map[string]any{"sort_index": pid}})
		}
		at[l] = event{PID: pid, TID: i + 1}
		out = append(out, event{Name: "thread_name", Ph: "M", PID: pid, TID: i + 1, Args: map[string]any{"name": l.stream}})
		out = append(out, event{Name: "thread_sort_index", Ph: "M", PID: pid, TID: i + 1, Args: map[string]any{"sort_index": i + 1}})
	}
	return out, at
}

// describe names an operation: a launch by its task, a copy by its tensor.
func (t *Spans) describe(s device.Span) event {
	if x, ok := t.tasks[s.Event]; ok {
		args := map[string]any{"step": t.first + int(x.Step), "program": x.Net}
		if s.Waited > 0 {
			args["waited"] = float64(s.Waited.Nanoseconds()) / 1e3 // microseconds, for copies
		}
		return event{Name: x.Task, Cat: "launch", Args: args}
	}
	if r, ok := t.copies[s.Event]; ok {
		step := t.first + int(r.Step) + 1
		if r.Kind == ledger.PullBack && r.Reason != ledger.Transit { // it comes after a step
			step--
		}
		return event{Name: r.Value, Cat: s.What, Args: map[string]any{
			"step": step, "from": r.From, "to": r.To, "bytes": r.Bytes, "usage": r.Usage.String(), "cause": r.Cause,
		}}
	}
	return event{Name: s.What, Cat: s.What}
}
