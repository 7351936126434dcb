package trace

import (
	"cmp"
	"slices"
	"time"

	"github.com/berth-ml/berth/engine/device"
	"github.com/berth-ml/berth/executor"
	"github.com/berth-ml/berth/executor/schedule"
	"github.com/berth-ml/berth/partition"
	"github.com/berth-ml/berth/residency/ledger"
)

// StepTrace is a step as it ran, and as the plan predicts a full one. It is for JSON, too.
type StepTrace struct {
	Step      int          `json:"step"` // its number in the run, from 1
	Name      string       `json:"name"` // of the model
	Schedule  string       `json:"schedule"`
	Partial   bool         `json:"partial,omitempty"` // the step has fewer samples than a full one
	Measured  StepTimeline `json:"measured"`
	Predicted StepTimeline `json:"predicted"`
	LeftOut   int          `json:"left_out,omitempty"` // kernels of the step, the shortest ones, that Measured has no room for
}

// StepTimeline is what runs in a step. Times are from the beginning of its first launch, in nanoseconds in JSON.
type StepTimeline struct {
	// Begin and End are the time of the step: from the end of the step before it, or from its first launch where no step was
	// under way, to the end of its last launch.
	Begin time.Duration `json:"begin"`
	End   time.Duration `json:"end"`
	// Bubble is the share of that time in which the devices of the step run no launch, or one that waits.
	Bubble float64 `json:"bubble"`
	// Hidden is the time of copies while a launch worked on their device, Exposed that of the others, summed over devices.
	Hidden  time.Duration `json:"hidden"`
	Exposed time.Duration `json:"exposed"`
	Lanes   []StepLane    `json:"lanes"`
	Spans   []StepSpan    `json:"spans"` // by lane and start
}

// StepLane is a stream of a device.
type StepLane struct {
	Device device.ID `json:"device"`
	Stream string    `json:"stream"` // compute, copy-in, peer, copy-out, or store for what is read from files
}

// StepSpan is an operation in time.
type StepSpan struct {
	Lane   int           `json:"lane"` // index in StepTimeline.Lanes
	Kind   string        `json:"kind"` // launch, kernel, wait (of a launch, for its inputs), or what copies: copy-in, copy-out, peer, move, stream-in
	Name   string        `json:"name"` // of the task, kernel or tensor
	Start  time.Duration `json:"start"`
	Time   time.Duration `json:"time"`
	Passes string        `json:"passes,omitempty"` // of a launch, such as FB
	Waited time.Duration `json:"waited,omitempty"` // of Time, for which a launch waited for its inputs
	Other  bool          `json:"other,omitempty"`  // it is of the step before or after
	Bytes  int64         `json:"bytes,omitempty"`  // of a copy
	From   string        `json:"from,omitempty"`
	To     string        `json:"to,omitempty"`
	For    string        `json:"for,omitempty"` // the usage of the tensor, or the tensor that a kernel writes
}

// The kinds of spans that are no copies.
const (
	launchKind = "launch"
	waitKind   = "wait"
)

// mostStepSpans bounds the spans of a StepTrace.
const mostStepSpans = 20_000

// StepOf names a step of a program for [Spans.StepTrace].
type StepOf struct {
	Net       string // of the program
	Ticket    executor.Ticket
	Before    int // steps taken before the program's first
	Model     string
	Partial   bool
	Plan      *partition.Plan       // of a full step
	Predicted *partition.Prediction // of Plan
}

// StepTrace is what the spans have of a step that has ended. They began before it was queued.
func (t *Spans) StepTrace(of StepOf) *StepTrace {
	t.mu.Lock()
	defer t.mu.Unlock()
	s := &StepTrace{Step: of.Before + int(of.Ticket), Name: of.Model, Schedule: of.Plan.Schedule(), Partial: of.Partial, Predicted: predictedStep(of.Plan, of.Predicted)}
	s.Measured, s.LeftOut = t.measuredStep(of)
	return s
}

// measuredStep is the step as it ran, and the number of kernels that are left out.
func (t *Spans) measuredStep(of StepOf) (line StepTimeline, left int) {
	r, before := t.ranStep(of)
	begin := r.start
	if !before.IsZero() {
		begin = before
	}
	b := newStepBuilder(r.start)
	devices, own := map[device.ID]bool{}, map[device.Event]lane{}
	for _, s := range r.launches {
		devices[s.Device], own[s.Event] = true, lane{s.Device, s.Stream}
	}
	kernels := t.kernelsOf(r)
	for _, s := range t.spans {
		row, copies := t.copies[s.Event]
		beside := s.Start.Before(r.end) && (s.End.After(r.start) || s.End.After(begin))
		if !beside && !(copies && stepOf(row) == int(of.Ticket)) {
			continue
		}
		x := t.stepSpan(s, of)
		b.add(s, x)
		if _, of := own[s.Event]; !of || s.Waited == 0 {
			continue
		}
		for _, w := range waits(s, kernels[s.Event]) {
			b.put(lane{s.Device, s.Stream}, StepSpan{Kind: waitKind, Name: x.Name}, w.start, w.end)
		}
	}
	list := slices.DeleteFunc(slices.Clone(t.kernels), func(k device.KernelSpan) bool { return own[k.Launch] == lane{} })
	slices.SortStableFunc(list, func(a, b device.KernelSpan) int { return cmp.Compare(b.End.Sub(b.Start), a.End.Sub(a.Start)) })
	left = max(0, len(b.line.Spans)+len(list)-mostStepSpans)
	left = min(left, len(list))
	for _, k := range list[:len(list)-left] {
		last := k.Work.Nodes[len(k.Work.Nodes)-1]
		b.put(own[k.Launch], StepSpan{Kind: "kernel", Name: k.Work.Name, For: last.Out[0].Name}, k.Start, k.End)
	}
	return b.timeline(begin, r.end, len(devices)), left
}

// ranStep is the step, and the end of the step before it; zero where none was under way.
func (t *Spans) ranStep(of StepOf) (r *ran, before time.Time) {
	r = &ran{step: of.Ticket}
	for _, s := range t.spans {
		x, known := t.tasks[s.Event]
		switch {
		case known && x.Net == of.Net && x.Step == of.Ticket:
			if r.launches = append(r.launches, s); len(r.launches) == 1 || s.Start.Before(r.start) {
				r.start = s.Start
			}
			if s.End.After(r.end) {
				r.end = s.End
			}
		case !known && s.Stream == device.ComputeStream && s.End.After(before): // it was queued before the trace began
			before = s.End
		}
	}
	return r, before
}

// stepOf is the ticket of the step that a transfer is for.
func stepOf(r ledger.Row) int {
	if r.Kind == ledger.PullBack && r.Reason != ledger.Transit { // it comes after a step
		return int(r.Step)
	}
	return int(r.Step) + 1
}

// stepSpan is an operation of a device.
func (t *Spans) stepSpan(s device.Span, of StepOf) StepSpan {
	x := StepSpan{Kind: s.What, Name: s.What}
	if row, ok := t.copies[s.Event]; ok {
		x.Name, x.Bytes, x.From, x.To, x.For = row.Value, row.Bytes, row.From, row.To, row.Usage.String()
		x.Other = stepOf(row) != int(of.Ticket)
	}
	if s.Stream == device.ComputeStream {
		x.Kind, x.Waited, x.Other = launchKind, s.Waited, true
	}
	if task, ok := t.tasks[s.Event]; ok {
		x.Name, x.Passes, x.Other = task.Task, letters(task.Kinds), task.Step != of.Ticket
	}
	return x
}

// letters are passes as a task's name has them.
func letters(kinds []schedule.Kind) string {
	var text []byte
	for _, k := range kinds {
		text = append(text, byte(k))
	}
	return string(text)
}

// predictedStep is a prediction as a timeline.
func predictedStep(p *partition.Plan, x *partition.Prediction) StepTimeline {
	first, last := 0.0, x.Seconds
	if len(x.Launches) > 0 { // of many ranks there are none
		first, last = x.Launches[0].Start, x.Launches[0].End
	}
	for i := range x.Launches {
		first, last = min(first, x.Launches[i].Start), max(last, x.Launches[i].End)
	}
	zero := time.Unix(0, 0)
	at := func(s float64) time.Time { return zero.Add(time.Duration((s - first) * float64(time.Second))) }
	b := newStepBuilder(zero)
	for i := range x.Launches {
		l := &x.Launches[i]
		of, name := p.Specs()[l.Device].ID, l.Launch.Name()
		waited := time.Duration(l.Waited() * float64(time.Second))
		b.add(device.Span{Device: of, Stream: device.ComputeStream, Start: at(l.Start), End: at(l.End), Waited: waited}, StepSpan{Kind: launchKind, Name: name, Passes: letters(l.Launch.Kinds()), Waited: waited})
		for _, w := range l.Waits {
			b.put(lane{of, device.ComputeStream}, StepSpan{Kind: waitKind, Name: name}, at(w.Start), at(w.End))
		}
	}
	for _, k := range x.Copies {
		from, to := p.Specs()[k.From].ID, p.Specs()[k.To].ID
		b.add(device.Span{Device: to, Stream: "peer", What: "peer", Start: at(k.Start), End: at(k.End)}, StepSpan{Kind: "peer", Name: k.Value.Name, Bytes: k.Bytes, From: string(from), To: string(to)})
	}
	line := b.timeline(at(first), at(last), 0)
	line.Begin, line.Bubble = at(last-x.Seconds).Sub(zero), x.Bubble
	return line
}

// stepBuilder makes a StepTimeline.
type stepBuilder struct {
	zero time.Time // the beginning of its first launch
	line StepTimeline
	at   []lane        // of each span
	ops  []device.Span // launches and copies
}

func newStepBuilder(zero time.Time) *stepBuilder {
	return &stepBuilder{zero: zero, line: StepTimeline{Lanes: []StepLane{}, Spans: []StepSpan{}}}
}

// add adds a launch or a copy.
func (b *stepBuilder) add(s device.Span, x StepSpan) {
	b.ops = append(b.ops, s)
	b.put(lane{s.Device, s.Stream}, x, s.Start, s.End)
}

// put adds a span to a lane.
func (b *stepBuilder) put(of lane, x StepSpan, start, end time.Time) {
	x.Start, x.Time = start.Sub(b.zero), end.Sub(start)
	b.at, b.line.Spans = append(b.at, of), append(b.line.Spans, x)
}

// timeline is that of a step from begin to end, on so many devices.
func (b *stepBuilder) timeline(begin, end time.Time, devices int) StepTimeline {
	lanes := slices.Clone(b.at)
	slices.SortFunc(lanes, lane.compare)
	lanes = slices.Compact(lanes)
	for _, l := range lanes {
		b.line.Lanes = append(b.line.Lanes, StepLane{l.device, l.stream})
	}
	for i := range b.line.Spans {
		b.line.Spans[i].Lane = slices.Index(lanes, b.at[i])
	}
	b.line.Begin, b.line.End = begin.Sub(b.zero), end.Sub(b.zero)
	b.count(begin, end, devices)
	b.line.Spans = b.line.Spans[:min(len(b.line.Spans), mostStepSpans)]
	slices.SortStableFunc(b.line.Spans, func(x, y StepSpan) int { // a launch comes before what is in it
		return cmp.Or(cmp.Compare(x.Lane, y.Lane), cmp.Compare(x.Start, y.Start), cmp.Compare(y.Time, x.Time))
	})
	return b.line
}

// count counts what runs from begin to end.
func (b *stepBuilder) count(begin, end time.Time, devices int) {
	slices.SortStableFunc(b.ops, func(x, y device.Span) int { return x.End.Compare(y.End) })
	var copies Copies
	copies.Begin()
	busy := time.Duration(0)
	for _, s := range b.ops {
		if s.Start.Before(begin) {
			s.Start = begin
		}
		if s.End.After(end) {
			s.End = end
		}
		if !s.End.After(s.Start) {
			continue
		}
		if s.Waited = min(s.Waited, s.End.Sub(s.Start)); s.Stream == device.ComputeStream {
			busy += s.End.Sub(s.Start) - s.Waited
		}
		copies.Add(s)
	}
	time := copies.Time()
	b.line.Hidden, b.line.Exposed = time.Hidden, time.Exposed
	if whole := end.Sub(begin).Seconds() * float64(devices); whole > 0 {
		b.line.Bubble = max(0, 1-busy.Seconds()/whole)
	}
}
