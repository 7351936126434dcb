package schedule

import (
	"fmt"
	"slices"
	"strings"
)

// Validate checks that every stage has each of its actions exactly once, on its
// worker, in an order that can be run, with F, B and W in microbatch order. The
// error names the action, and shows the grid with its cell in brackets.
func (s Schedule) Validate() error {
	if err := s.validateSizes(); err != nil {
		return err
	}
	v := newValidator(s)
	for w := range s.Rows {
		if err := v.row(w); err != nil {
			return err
		}
	}
	if err := v.complete(); err != nil {
		return err
	}
	return s.runs()
}

func (s Schedule) validateSizes() error {
	if err := checkSizes(s.Stages, s.Microbatches, s.Replicas); err != nil {
		return fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	if len(s.Workers) != s.Stages*s.Replicas {
		return fmt.Errorf("%w: Workers has %d entries for %d stages (those of all replicas); give each stage a worker", ErrInvalid, len(s.Workers), s.Stages*s.Replicas)
	}
	for i, w := range s.Workers {
		if w < 0 || w >= len(s.Rows) {
			return fmt.Errorf("%w: stage %d%s is on worker %d of %d; give each worker a row", ErrInvalid, i%s.Stages, ofReplica(i/s.Stages), w, len(s.Rows))
		}
	}
	return nil
}

// runs checks that there is no deadlock.
func (s Schedule) runs() error {
	r := s.play(s.Typical())
	for w, row := range s.Rows {
		if r.next[w] == len(row) {
			continue
		}
		a := row[r.next[w]]
		for _, d := range r.rel.depends(a) {
			if _, ran := r.done[d]; !ran {
				return s.fail(a, fmt.Sprintf("is in a deadlock: it waits for %v, which never runs before it", d))
			}
		}
		panic("BUG: " + a.String() + " is stuck but waits for nothing")
	}
	return nil
}

func (s Schedule) fail(a Action, why string) error { return &InvalidError{s, a, why} }

// InvalidError is an ErrInvalid about an action.
type InvalidError struct {
	Schedule Schedule
	Action   Action
	Why      string // "comes before 0F1"
}

// Line is the error without the grid.
func (e *InvalidError) Line() string { return fmt.Sprintf("%v: %v %s", ErrInvalid, e.Action, e.Why) }

// Error shows the grid, with the action's cell in brackets.
func (e *InvalidError) Error() string { return e.Line() + "\n" + e.Schedule.Grid(e.Action) }

// Unwrap is ErrInvalid.
func (e *InvalidError) Unwrap() error { return ErrInvalid }

// worker is the row that has the action, or the one that should have it.
func (e *InvalidError) worker() int {
	for w, row := range e.Schedule.Rows {
		if slices.Contains(row, e.Action) {
			return w
		}
	}
	w, _ := e.Schedule.row(e.Action.Stage, e.Action.Replica)
	return w
}

// validator checks the rows one by one.
type validator struct {
	s     Schedule
	kinds []Kind         // of which each stage has an action for each microbatch
	share [][]int        // by replica: its microbatches, in order
	next  map[Action]int // of a stage, kind and replica, as the action for microbatch 0: how many there were
	sums  map[Action]bool
}

func newValidator(s Schedule) *validator {
	v := &validator{s: s, kinds: []Kind{Forward}, share: s.shares(), next: map[Action]int{}, sums: map[Action]bool{}}
	for _, k := range []Kind{Backward, Weights} {
		if s.Has(k) {
			v.kinds = append(v.kinds, k)
		}
	}
	return v
}

// shares are the microbatches of each replica. A microbatch without F, or with several,
// counts for the first replica that could have it.
func (s Schedule) shares() [][]int {
	owner := make([]int, s.Microbatches)
	for _, row := range s.Rows {
		for _, a := range row {
			if a.Kind == Forward && a.Microbatch >= 0 && a.Microbatch < s.Microbatches && a.Replica >= 0 && a.Replica < s.Replicas {
				owner[a.Microbatch] = max(owner[a.Microbatch], a.Replica)
			}
		}
	}
	share := make([][]int, s.Replicas)
	for m, r := range owner {
		share[r] = append(share[r], m)
	}
	return share
}

// row checks a row by itself.
func (v *validator) row(w int) error {
	for _, a := range v.s.Rows[w] {
		why := v.misplaced(a, w)
		if why == "" && v.next[Action{a.Stage, Update, 0, a.Replica}] > 0 {
			why = "comes after the stage's update; the update must be the last action of a stage"
		}
		if why == "" {
			why = v.unordered(a)
		}
		if why != "" {
			return v.s.fail(a, why)
		}
		v.next[key(a)]++
	}
	return nil
}

// key is equal for all actions of one stage, replica and kind: their microbatch is 0 in it.
func key(a Action) Action {
	a.Microbatch = 0
	return a
}

// misplaced describes the fault of an action by itself; "" if it has none.
func (v *validator) misplaced(a Action, w int) string {
	at, ok := v.s.row(a.Stage, a.Replica)
	switch {
	case !ok:
		return fmt.Sprintf("is of no stage from 0 to %d and replica from 0 to %d", v.s.Stages-1, v.s.Replicas-1)
	case at != w:
		return fmt.Sprintf("stands in the row of worker %d, but its stage is on worker %d", w, at)
	case !strings.ContainsRune(kindLetters, rune(a.Kind)):
		return "is of no known kind; the kinds are F, B, W, R and U"
	case a.Kind == Update && a.Microbatch != 0:
		return "is an update for one microbatch; an update is for all"
	case a.Microbatch < 0 || a.Microbatch >= v.s.Microbatches:
		return fmt.Sprintf("is outside the microbatches 0 to %d", v.s.Microbatches-1)
	case a.Kind == Reduce && a.Microbatch == 0:
		return "adds the first sum onto one before it, and there is none; reductions are for microbatches from 1 on"
	}
	return ""
}

// unordered describes an action's fault by what came before it in its row; "" if it
// has none.
func (v *validator) unordered(a Action) string {
	switch a.Kind {
	case Update:
		return ""
	case Reduce:
		if v.sums[a] {
			return "is a duplicate"
		}
		v.sums[a] = true
		return ""
	}
	share, n := v.share[a.Replica], v.next[key(a)]
	if _, own := slices.BinarySearch(share, a.Microbatch); !own {
		return "is of a microbatch that another replica has too"
	}
	if n == len(share) || a.Microbatch < share[n] {
		return "is a duplicate"
	}
	if want := (Action{a.Stage, a.Kind, share[n], a.Replica}); a != want {
		return fmt.Sprintf("is out of order: %v must come first, microbatches are summed in their order", want)
	}
	if i := slices.Index(v.kinds, a.Kind); i > 0 {
		before := Action{a.Stage, v.kinds[i-1], a.Microbatch, a.Replica}
		if v.next[key(before)] <= n {
			return fmt.Sprintf("comes before %v", before)
		}
	}
	return ""
}

// complete checks that nothing is missing.
func (v *validator) complete() error {
	for replica, share := range v.share {
		for stage := range v.s.Stages {
			for _, k := range v.kinds {
				if n := v.next[Action{stage, k, 0, replica}]; n < len(share) {
					return v.s.fail(Action{stage, k, share[n], replica}, "is missing")
				}
			}
			if u := (Action{stage, Update, 0, replica}); v.next[u] == 0 && (replica == 0 || !v.s.UpdatesFirst()) {
				return v.s.fail(u, "is missing")
			}
		}
	}
	if len(v.sums) == 0 {
		return nil
	}
	return v.completeSums()
}

// completeSums checks that each stage has each of its reductions, on the replica
// that has the first microbatch of the sum.
func (v *validator) completeSums() error {
	rel := v.s.relations()
	for stage := range v.s.Stages {
		for m := 1; m < v.s.Microbatches; m++ {
			lo, hi := SumOf(m, v.s.Microbatches)
			if a := rel.sum(stage, lo, hi); !v.sums[a] {
				return v.s.fail(a, "is missing")
			}
		}
	}
	return nil
}
