package schedule

// relations answers which actions of a schedule wait for which.
type relations struct {
	s       Schedule
	sums    Kind  // of the actions that make gradients of weights: W, or B without any W
	replica []int // of each microbatch
}

func (s Schedule) relations() *relations {
	r := &relations{s: s, sums: Backward}
	if s.Has(Weights) {
		r.sums = Weights
	}
	if !s.Has(Reduce) {
		return r
	}
	r.replica = make([]int, s.Microbatches)
	for _, row := range s.Rows {
		for _, a := range row {
			if a.Kind == Forward && a.Microbatch >= 0 && a.Microbatch < s.Microbatches {
				r.replica[a.Microbatch] = a.Replica
			}
		}
	}
	return r
}

// depends lists the actions that must be done before a can start.
func (r *relations) depends(a Action) []Action {
	var d []Action
	switch a.Kind {
	case Forward:
		if a.Stage > 0 {
			d = append(d, Action{a.Stage - 1, Forward, a.Microbatch, a.Replica})
		}
	case Backward:
		d = append(d, Action{a.Stage, Forward, a.Microbatch, a.Replica})
		if a.Stage < r.s.Stages-1 {
			d = append(d, Action{a.Stage + 1, Backward, a.Microbatch, a.Replica})
		}
	case Weights:
		d = append(d, Action{a.Stage, Backward, a.Microbatch, a.Replica})
	case Reduce:
		if a.Microbatch > 0 && a.Microbatch < r.s.Microbatches {
			lo, hi := SumOf(a.Microbatch, r.s.Microbatches)
			d = append(d, r.sum(a.Stage, lo, a.Microbatch), r.sum(a.Stage, a.Microbatch, hi))
		}
	case Update:
		d = r.beforeUpdate(a)
	}
	return d
}

// beforeUpdate lists the work of an update's stage and replica, and the last of
// the stage's sums.
func (r *relations) beforeUpdate(update Action) (d []Action) {
	row, ok := r.s.row(update.Stage, update.Replica)
	if !ok {
		return nil // not valid, but it must print
	}
	for _, x := range r.s.Rows[row] {
		if x.Stage == update.Stage && x.Replica == update.Replica && x.Kind != Update {
			d = append(d, x)
		}
	}
	if r.replica != nil && r.s.Microbatches > 1 {
		d = append(d, r.sum(update.Stage, 0, r.s.Microbatches))
	}
	return d
}

// sum is the action that ends the sum of a stage's gradients over microbatches lo
// to hi-1.
func (r *relations) sum(stage, lo, hi int) Action {
	if hi-lo == 1 {
		return Action{stage, r.sums, lo, r.replica[lo]}
	}
	return Action{stage, Reduce, Split(lo, hi), r.replica[lo]}
}
