package schedule

import "slices"

// relations answers which actions of a schedule wait for which.
type relations struct {
	s       Schedule
	sums    Kind       // of the actions that make gradients of weights: W, or B without any W
	work    [][]Action // of each stage, replica after replica: all but updates
	replica []int      // of each microbatch; nil if nothing is reduced
}

func (s Schedule) relations() *relations {
	r := &relations{s: s, sums: Backward, work: make([][]Action, len(s.Workers))}
	if s.Has(Weights) {
		r.sums = Weights
	}
	if s.Has(Reduce) {
		r.replica = make([]int, s.Microbatches)
	}
	for w, row := range s.Rows {
		for _, a := range row {
			if at, ok := s.row(a.Stage, a.Replica); ok && at == w && a.Kind != Update {
				i := a.Replica*s.Stages + a.Stage
				r.work[i] = append(r.work[i], a)
			}
			if r.replica != nil && a.Kind == Forward && a.Microbatch >= 0 && a.Microbatch < s.Microbatches {
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
	if _, ok := r.s.row(update.Stage, update.Replica); !ok {
		return nil // not valid, but it must print
	}
	d = slices.Clip(r.work[update.Replica*r.s.Stages+update.Stage])
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
