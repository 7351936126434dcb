package schedule

// Costs are the times that a simulation takes, in any unit. None is negative.
type Costs struct {
	// Action is the time of an action on its worker.
	Action func(Action) float64
	// Copy is the time from the end of an action until the worker of another one,
	// which waits for it, has its results. It is not asked about actions of one
	// worker. Nil means 0. Copies take no time of workers, and do not wait for each other.
	Copy func(from, to Action) float64
}

// Simulate plays the schedule with the given costs: each worker does its actions
// one after the other, each as soon as the actions that it depends on are done
// and copied. Times are in the unit of the costs; set [Timeline.Unit] to name it.
// Actions that can never run, because of a deadlock, are in the timeline's Stuck
// list and have no span.
func (s Schedule) Simulate(c Costs) Timeline {
	r := s.play(c)
	t := NewTimeline(len(s.Rows), r.spans)
	for w, row := range s.Rows {
		t.Stuck = append(t.Stuck, row[r.next[w]:]...)
	}
	return t
}

// simulation is the state of playing a schedule.
type simulation struct {
	s     Schedule
	rel   *relations
	costs Costs
	next  []int            // per row: its next action
	free  []float64        // per row: when it can start
	spans []Span           // of the actions that have ended
	done  map[Action]int   // of each of them, its index in spans
	wait  map[Action][]int // of an action that has not ended: the rows whose next one waits for it
}

// play simulates until no action can start any more.
func (s Schedule) play(c Costs) *simulation {
	n := len(s.Rows)
	r := &simulation{s: s, rel: s.relations(), costs: c, next: make([]int, n), free: make([]float64, n), done: map[Action]int{}, wait: map[Action][]int{}}
	for rows := upTo(n); len(rows) > 0; {
		row := rows[0]
		rows = rows[1:]
		for r.step(row) {
			ended := r.spans[len(r.spans)-1].Action
			rows = append(rows, r.wait[ended]...)
			delete(r.wait, ended)
		}
	}
	return r
}

// step does a row's next action if the actions that it depends on are done.
func (r *simulation) step(row int) bool {
	if r.next[row] == len(r.s.Rows[row]) {
		return false
	}
	a := r.s.Rows[row][r.next[row]]
	start := r.free[row]
	for _, d := range r.rel.depends(a) {
		i, ok := r.done[d]
		if !ok {
			r.wait[d] = append(r.wait[d], row)
			return false
		}
		start = max(start, r.spans[i].End+r.copyTime(r.spans[i], a, row))
	}
	sp := Span{Action: a, Worker: row, Start: start, End: start + r.costs.Action(a)}
	r.done[a] = len(r.spans)
	r.free[row] = sp.End
	r.next[row]++
	r.spans = append(r.spans, sp)
	return true
}

// copyTime is the time of a copy from an action that has ended to one of a row.
func (r *simulation) copyTime(from Span, to Action, row int) float64 {
	if from.Worker == row || r.costs.Copy == nil {
		return 0
	}
	return r.costs.Copy(from.Action, to)
}

// Typical measures costs in forward passes: a backward pass costs two, one
// for the inputs and one for the weights; a reduction or an update costs half of
// one. Copies are free.
func (s Schedule) Typical() Costs {
	back := 2.0
	if s.Has(Weights) {
		back = 1
	}
	return Costs{Action: func(a Action) float64 {
		switch a.Kind {
		case Forward, Weights:
			return 1
		case Backward:
			return back
		}
		return 0.5
	}}
}
