package schedule

import (
	"cmp"
	"slices"
)

// Simulate plays the schedule with the given costs: each stage does its actions
// one after the other, each as soon as the actions that it depends on are done.
// Costs are not negative and in any unit, which is then the timeline's; set
// [Timeline.Unit] to name it. Actions that can never run, because of a deadlock,
// are in the timeline's Stuck list and have no span.
func (s Schedule) Simulate(cost func(Action) float64) Timeline {
	r := s.play(cost)
	t := NewTimeline(s.Stages, r.spans)
	for stage, row := range s.PerStage {
		t.Stuck = append(t.Stuck, row[r.next[stage]:]...)
	}
	return t
}

// simulation is the state of playing a schedule.
type simulation struct {
	s     Schedule
	next  []int              // per row: its next action
	free  []float64          // per row: when it can start
	done  map[Action]float64 // when it ended
	spans []Span
	rows  []int // per span: its row, which is its stage if the schedule is valid
}

// play simulates until no action can start any more.
func (s Schedule) play(cost func(Action) float64) *simulation {
	n := len(s.PerStage)
	r := &simulation{s: s, next: make([]int, n), free: make([]float64, n), done: map[Action]float64{}}
	for progress := true; progress; {
		progress = false
		for row := range s.PerStage {
			for r.step(row, cost) {
				progress = true
			}
		}
	}
	return r
}

// step does a row's next action if the actions that it depends on are done.
func (r *simulation) step(row int, cost func(Action) float64) bool {
	if r.next[row] == len(r.s.PerStage[row]) {
		return false
	}
	a := r.s.PerStage[row][r.next[row]]
	start := r.free[row]
	for _, d := range r.s.depends(a) {
		end, ok := r.done[d]
		if !ok {
			return false
		}
		start = max(start, end)
	}
	end := start + cost(a)
	r.done[a] = end
	r.free[row] = end
	r.next[row]++
	r.spans = append(r.spans, Span{a, start, end})
	r.rows = append(r.rows, row)
	return true
}

// depends lists the actions that must be done before a can start.
func (s Schedule) depends(a Action) []Action {
	var d []Action
	switch a.Kind {
	case Forward:
		if a.Stage > 0 {
			d = append(d, Action{a.Stage - 1, Forward, a.Microbatch})
		}
	case Backward:
		d = append(d, Action{a.Stage, Forward, a.Microbatch})
		if a.Stage < s.Stages-1 {
			d = append(d, Action{a.Stage + 1, Backward, a.Microbatch})
		}
	case Update:
		if a.Stage < 0 || a.Stage >= len(s.PerStage) {
			return nil // not valid, but it must print
		}
		for _, x := range s.PerStage[a.Stage] {
			if x.Kind != Update {
				d = append(d, x)
			}
		}
	}
	return d
}

// TypicalCost counts in forward passes: a backward pass costs two of them, an
// update half of one.
func TypicalCost(a Action) float64 {
	switch a.Kind {
	case Backward:
		return 2
	case Update:
		return 0.5
	}
	return 1
}

// Order is the order in which to submit all actions: each comes after the actions
// that it depends on. It sorts by simulated start at typical cost, then by stage.
// Updates come last: the backward pass of another stage may read a variable, and
// must see its value from before the step. The schedule must be valid.
func (s Schedule) Order() []Action {
	t := s.Simulate(TypicalCost)
	if len(t.Stuck) > 0 {
		panic("BUG: Order of a schedule that deadlocks at " + t.Stuck[0].String() + "; call Validate first")
	}
	slices.SortStableFunc(t.Spans, func(x, y Span) int {
		if xu, yu := x.Action.Kind == Update, y.Action.Kind == Update; xu != yu {
			if yu {
				return -1
			}
			return 1
		}
		return cmp.Or(cmp.Compare(x.Start, y.Start), cmp.Compare(x.Action.Stage, y.Action.Stage))
	})
	order := make([]Action, len(t.Spans))
	for i, sp := range t.Spans {
		order[i] = sp.Action
	}
	return order
}
