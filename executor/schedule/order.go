package schedule

import (
	"cmp"
	"slices"
)

// Order is the order in which to submit all actions: each comes after the actions
// that it depends on, and after those before it in its row. It sorts by simulated
// start at typical costs, which are never 0, then by stage. Updates come last: the backward pass of
// another stage may read a variable, and must see its value from before the step.
// The schedule must be valid.
func (s Schedule) Order() []Action {
	r := s.play(s.Typical())
	for w, row := range s.Rows {
		if r.next[w] < len(row) {
			panic("BUG: Order of a schedule that deadlocks at " + row[r.next[w]].String() + "; call Validate first")
		}
	}
	last := func(a Action) int {
		if a.Kind == Update {
			return 1
		}
		return 0
	}
	slices.SortStableFunc(r.spans, func(x, y Span) int {
		return cmp.Or(cmp.Compare(last(x.Action), last(y.Action)), cmp.Compare(x.Start, y.Start), cmp.Compare(x.Action.Stage, y.Action.Stage))
	})
	order := make([]Action, len(r.spans))
	for i, sp := range r.spans {
		order[i] = sp.Action
	}
	return order
}

// On is the schedule for that many workers, where it has more: neighbouring
// workers become one.
func (s Schedule) On(workers int) Schedule {
	had := len(s.Rows)
	if workers >= had {
		return s
	}
	to := make([]int, len(s.Workers))
	for i, w := range s.Workers {
		to[i] = w * workers / had
	}
	return s.Deal(to, workers)
}

// Deal is the schedule with another worker for each stage, as Schedule.Workers has
// them: numbers below workers. Each worker does the actions of its stages in the order
// of Order.
func (s Schedule) Deal(to []int, workers int) Schedule {
	order := s.Order()
	s.Workers, s.Rows = to, make([][]Action, workers)
	for _, a := range order {
		w := s.Worker(a.Stage, a.Replica)
		s.Rows[w] = append(s.Rows[w], a)
	}
	return s
}
