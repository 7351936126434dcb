package trace

import (
	"cmp"
	"slices"
	"time"

	"github.com/berth-ml/berth/engine/device"
	"github.com/berth-ml/berth/executor"
	"github.com/berth-ml/berth/partition"
	"github.com/berth-ml/berth/partition/picture"
)

// ran is a step that ran.
type ran struct {
	step       executor.Ticket
	launches   []device.Span
	start, end time.Time // from its first launch to the end of its last one
}

// measured is a step of a program on the devices of its plan, by which it runs since a step: the one with the median
// time, of those that have the most launches. The first step is left out, since weights
// come in. It fails where no other step ran.
func (t *Spans) measured(net string, p *partition.Plan, since executor.Ticket) (line picture.Timeline, step int, ok bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	list := t.stepsOf(net, since)
	if len(list) < 2 {
		return line, 0, false
	}
	list = list[1:]
	slices.SortStableFunc(list, func(a, b *ran) int { return cmp.Compare(a.end.Sub(a.start), b.end.Sub(b.start)) })
	r := list[(len(list)-1)/2]
	return t.timeline(r, p), t.first + int(r.step), true
}

// stepsOf are the steps of a program, since one, with the most launches, in order.
func (t *Spans) stepsOf(net string, since executor.Ticket) (list []*ran) {
	byStep, most := map[executor.Ticket]*ran{}, 0
	for _, s := range t.spans {
		x, ok := t.tasks[s.Event]
		if !ok || x.Net != net || x.Step < since {
			continue
		}
		r := byStep[x.Step]
		if r == nil {
			r = &ran{step: x.Step, start: s.Start}
			byStep[x.Step] = r
		}
		r.launches = append(r.launches, s)
		if s.Start.Before(r.start) {
			r.start = s.Start
		}
		if s.End.After(r.end) {
			r.end = s.End
		}
		most = max(most, len(r.launches))
	}
	for _, r := range byStep {
		if len(r.launches) == most {
			list = append(list, r)
		}
	}
	slices.SortFunc(list, func(a, b *ran) int { return cmp.Compare(a.step, b.step) })
	return list
}

// timeline is a step's launches, and all copies that ran meanwhile.
func (t *Spans) timeline(r *ran, p *partition.Plan) (line picture.Timeline) {
	index := map[string]int{}
	for i, spec := range p.Specs() {
		index[string(spec.ID)] = i
	}
	at := func(x time.Time) float64 { return x.Sub(r.start).Seconds() }
	kernels := t.kernelsOf(r)
	for _, s := range r.launches {
		x := t.tasks[s.Event]
		l := picture.Launch{Name: x.Task, Kinds: x.Kinds, Device: index[string(s.Device)], Start: at(s.Start), End: at(s.End)}
		for _, w := range waits(s, kernels[s.Event]) {
			l.Waits = append(l.Waits, partition.Wait{Start: at(w.start), End: at(w.end)})
		}
		line.Launches = append(line.Launches, l)
	}
	for _, s := range t.spans {
		row, ok := t.copies[s.Event]
		if !ok || !s.Start.Before(r.end) || !s.End.After(r.start) {
			continue
		}
		line.Copies = append(line.Copies, picture.Copy{
			Name: row.Value, Bytes: row.Bytes, From: row.From, To: row.To, Device: index[string(s.Device)],
			Start: max(0, at(s.Start)), End: min(at(r.end), at(s.End)),
		})
	}
	return line
}

// kernelsOf are the kernels of a step's launches that waited, in order, by launch.
func (t *Spans) kernelsOf(r *ran) map[device.Event][]interval {
	list := map[device.Event][]interval{}
	for _, s := range r.launches {
		if s.Waited > 0 {
			list[s.Event] = nil
		}
	}
	for _, k := range t.kernels {
		if _, waited := list[k.Launch]; waited {
			list[k.Launch] = append(list[k.Launch], interval{k.Start, k.End})
		}
	}
	for _, of := range list {
		slices.SortFunc(of, func(a, b interval) int { return a.start.Compare(b.start) })
	}
	return list
}

// waits are the times at which a launch waited, in order. The span has their sum alone; a
// launch waits between kernels, so the longest gaps between them are taken, up to the sum.
func waits(s device.Span, kernels []interval) (list []interval) {
	free := s.Start
	for _, k := range append(kernels, interval{s.End, s.End}) {
		if k.start.After(free) {
			list = append(list, interval{free, k.start})
		}
		if k.end.After(free) {
			free = k.end
		}
	}
	long := func(w interval) time.Duration { return w.end.Sub(w.start) }
	slices.SortStableFunc(list, func(a, b interval) int { return cmp.Compare(long(b), long(a)) })
	left := s.Waited
	for i, w := range list {
		if left <= 0 {
			list = list[:i]
			break
		}
		if long(w) > left+left/10 { // the rest of it is work between kernels
			list[i].start = w.end.Add(-left)
		}
		left -= long(list[i])
	}
	slices.SortFunc(list, func(a, b interval) int { return a.start.Compare(b.start) })
	return list
}
