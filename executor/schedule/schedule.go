package schedule

import "slices"

// Schedule is the work of one step: the actions of each worker in order. A worker
// is a device; several stages can share one.
type Schedule struct {
	Name         string
	Stages       int
	Microbatches int   // of a step, over all replicas
	Replicas     int   // of each stage
	Workers      []int // row of each stage, replica after replica: see Worker
	Rows         [][]Action
}

// Worker is the row of a stage's replica.
func (s Schedule) Worker(stage, replica int) int { return s.Workers[replica*s.Stages+stage] }

// row does what Worker does, and reports false for a stage or replica that does not exist.
func (s Schedule) row(stage, replica int) (row int, ok bool) {
	at := replica*s.Stages + stage
	if stage < 0 || stage >= s.Stages || replica < 0 || at >= len(s.Workers) || s.Workers[at] < 0 || s.Workers[at] >= len(s.Rows) {
		return 0, false
	}
	return s.Workers[at], true
}

// Has reports whether the schedule has an action of that kind.
func (s Schedule) Has(k Kind) bool {
	for _, row := range s.Rows {
		if slices.ContainsFunc(row, func(a Action) bool { return a.Kind == k }) {
			return true
		}
	}
	return false
}

// InFlight is how many copies of a stage's activations a replica needs at once: the most
// microbatches whose F has begun and whose last action, B or W, has not ended. It is 1
// where the schedule has no such action.
func (s Schedule) InFlight(stage int, last Kind) int {
	if !s.Has(last) {
		return 1
	}
	most := 0
	for replica := range s.Replicas {
		live := 0
		for _, a := range s.Rows[s.Worker(stage, replica)] {
			switch {
			case a.Stage != stage || a.Replica != replica:
			case a.Kind == Forward:
				live++
				most = max(most, live)
			case a.Kind == last:
				live--
			}
		}
	}
	return most
}

// Without leaves out all actions of the microbatches from some number on, as in
// an epoch's smaller last batch, and then all reductions, since the sums are others.
// What remains is valid if s is.
func (s Schedule) Without(from int) Schedule {
	if from >= s.Microbatches {
		return s
	}
	s.Microbatches = from
	s.Rows = slices.Clone(s.Rows)
	for i, row := range s.Rows {
		s.Rows[i] = slices.DeleteFunc(slices.Clone(row), func(a Action) bool { return a.Microbatch >= from || a.Kind == Reduce })
	}
	return s
}

// FirstUpdates leaves out the updates of all replicas but the first.
func (s Schedule) FirstUpdates() Schedule {
	s.Rows = slices.Clone(s.Rows)
	for i, row := range s.Rows {
		s.Rows[i] = slices.DeleteFunc(slices.Clone(row), func(a Action) bool { return a.Kind == Update && a.Replica > 0 })
	}
	return s
}

// UpdatesFirst reports whether the first replica alone has updates.
func (s Schedule) UpdatesFirst() bool {
	for _, row := range s.Rows {
		if slices.ContainsFunc(row, func(a Action) bool { return a.Kind == Update && a.Replica > 0 }) {
			return false
		}
	}
	return true
}
