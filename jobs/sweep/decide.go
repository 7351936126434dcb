package sweep

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/berth-ml/berth/configs"
)

// Trial is what is known of a trial. The zero Trial has not begun.
type Trial struct {
	// Settings are those that it began with, as [Ready] gave them; nil: it has not begun. Strategy tpe learns from
	// them; other strategies do not need them.
	Settings []configs.Setting

	// Values has the sweep's metric at each rung that the trial has reached.
	Values []float64

	// Ended says that the trial is complete though it has not reached its last rung, as by early_stopping. Its last
	// value, of which there is one, counts at the rungs that are missing.
	Ended bool

	// Running says that the trial trains now.
	Running bool

	// Err is why the trial failed, after all attempts; nil: it has not failed, or is to be tried again.
	Err error
}

// State is the state of a trial.
type State string

// The states of trials.
const (
	Waiting  State = "waiting"  // to begin, to go on, or for the results of others
	Running  State = "running"  // it trains
	Finished State = "finished" // it is complete
	Out      State = "out"      // others are better, and it does not go on
	Failed   State = "failed"   // it goes on once its Err is nil
)

// Ready is a trial that may train now.
type Ready struct {
	Trial    int // its number
	Rung     int // the rung up to which it may train: see [Rungs]
	Settings []configs.Setting
}

// Decision is what is to be done next.
type Decision struct {
	// Ready has the trials that may begin or go on, without those that run: those of higher rungs first, then by number. The
	// first ones are the ones to take if not all can run at once, since they let checkpoints be deleted sooner.
	Ready []Ready

	// States has the state of each trial; that of trial i is States[i-1].
	States []State

	// Delete has the numbers of the trials whose checkpoints are not needed: they do not go on, and enough others are better
	// for good. It also has those whose checkpoints are deleted already. The checkpoint of a failed trial is
	// needed until the sweep is over.
	Delete []int

	// Best is the number of the best trial so far: of those that got furthest, the one with the best value. It
	// is the winner once the sweep is over. 0: no trial has a finite value yet.
	Best int

	// Over says that no trial is to train any more. Those that still run are to be stopped.
	Over bool

	// Err is why a sweep that is over has no winner: its first trials failed, or no trial has a finite value at its
	// end.
	Err error
}

// atFirst is the number of trials that end the sweep if all of them, the first ones, fail.
const atFirst = 3

// Decide says what is to be done next. trials[i-1] is trial i; those beyond the slice have not begun. The same arguments give the
// same decision. What one decision says is Out, to be deleted or over stays so, whatever trials reach later. Only a failed
// trial that is tried again, and is better than others, can end some that had gone on in its place.
func Decide(s *configs.Sweep, trials []Trial) (d Decision) {
	all := make([]Trial, s.Total())
	copy(all, trials)
	r := newRanking(s, all)
	settings := Settings(s, trials)
	d.States = make([]State, len(all))
	for i := range all {
		d.States[i] = r.state(i)
		if r.goal[i] >= 0 && d.States[i] == Waiting && i < len(settings) {
			d.Ready = append(d.Ready, Ready{i + 1, r.goal[i], settings[i]})
		}
	}
	slices.SortStableFunc(d.Ready, func(a, b Ready) int { return cmp.Compare(b.Rung, a.Rung) })
	order := r.order()
	if best := order[0]; r.reached[best] >= 0 {
		d.Best = best + 1
	}
	d.Over = r.complete
	if d.Over && (d.Best == 0 || r.reached[d.Best-1] < r.last) {
		d.Err = lost(s, all)
	}
	if err := firstFailed(s, all); err != nil {
		d.Over, d.Err, d.Ready = true, err, nil
	}
	for place, i := range order {
		settled := d.States[i] == Out || d.States[i] == Finished || d.States[i] == Failed && d.Over && d.Err == nil
		if settled && place >= s.Keep {
			d.Delete = append(d.Delete, i+1)
		}
	}
	slices.Sort(d.Delete)
	return d
}

// firstFailed is the error of a sweep whose first trials failed, and that has others.
func firstFailed(s *configs.Sweep, all []Trial) error {
	first := all[:min(atFirst, len(all))]
	if s.KeepGoing || len(first) == len(all) || slices.ContainsFunc(first, func(t Trial) bool { return t.Err == nil }) {
		return nil
	}
	return &TrialsError{fmt.Sprintf("the first %d trials failed, and the others are not tried (--keep-going tries them)", len(first)), joined(first)}
}

// lost is the error of a sweep that is over and has no winner.
func lost(s *configs.Sweep, all []Trial) error {
	failed := slices.DeleteFunc(slices.Clone(all), func(t Trial) bool { return t.Err == nil })
	if len(failed) == 0 {
		return fmt.Errorf("no trial has a finite %s at its end: vary other keys, or choose another metric", s.Metric)
	}
	return &TrialsError{fmt.Sprintf("no trial has a finite %s at its end, and %d of %d failed", s.Metric, len(failed), len(all)), joined(failed)}
}

// TrialsError is why a sweep failed whose trials did.
type TrialsError struct {
	What   string
	Trials error // their errors
}

func (e *TrialsError) Error() string { return e.What + ": " + e.Trials.Error() }

// Unwrap is the errors of the trials.
func (e *TrialsError) Unwrap() error { return e.Trials }

// joined has the errors of trials, equal ones once.
func joined(failed []Trial) error {
	var list []error
	for _, t := range failed {
		if !slices.ContainsFunc(list, func(err error) bool { return err.Error() == t.Err.Error() }) {
			list = append(list, t.Err)
		}
	}
	if len(list) == 1 {
		return list[0]
	}
	return errors.Join(list...)
}

// ranking is who is where.
type ranking struct {
	trials   []Trial
	lower    bool  // a lower value is better
	last     int   // the last rung
	goal     []int // the rung to which each trial may train; -1: none
	out      []bool
	finished []bool
	reached  []int // the highest rung at which each trial is compared and has a finite value; -1: none
	complete bool  // every trial that is to reach its last rung has
}

func newRanking(s *configs.Sweep, all []Trial) *ranking {
	n := len(all)
	r := &ranking{
		trials: all, lower: configs.LowerIsBetter(s.Metric), complete: true,
		goal: slices.Repeat([]int{-1}, n), reached: slices.Repeat([]int{-1}, n),
		out: make([]bool, n), finished: make([]bool, n),
	}
	first := 0
	for _, n := range s.Trials {
		sizes := rungSizes(s, n)
		r.last = len(sizes) - 1
		r.cohort(first, sizes)
		first += n
	}
	return r
}

// rungSizes is how many of n trials train up to each rung.
func rungSizes(s *configs.Sweep, n int) []int {
	if !s.Halving {
		return []int{n}
	}
	return []int{n, max(1, n/3), max(1, n/9)}
}

// cohort goes up the rungs with trials that are halved among themselves.
func (r *ranking) cohort(first int, sizes []int) {
	var members, known []int
	for i := range sizes[0] {
		members = append(members, first+i)
	}
	for rung, size := range sizes {
		known = known[:0]
		for _, i := range members {
			v, ok := r.value(i, rung)
			if !ok {
				r.goal[i] = rung
				continue
			}
			known = append(known, i)
			if finite(v) {
				r.reached[i] = rung
			}
		}
		unknown := size - len(known)
		if rung == r.last {
			for _, i := range known {
				r.finished[i] = r.has(i, rung)
			}
			r.complete = r.complete && unknown == 0
			return
		}
		slices.SortFunc(known, func(a, b int) int { return r.compare(a, b, rung) })
		next := sizes[rung+1]
		for _, i := range known[min(next, len(known)):] {
			r.out[i] = r.has(i, rung)
		}
		members = slices.Clone(known[:max(0, min(next-unknown, len(known)))])
	}
}

// has reports whether a trial has a value at a rung.
func (r *ranking) has(i, rung int) bool {
	t := &r.trials[i]
	return rung < len(t.Values) || t.Ended && len(t.Values) > 0
}

// value is the value of a trial at a rung; NaN if it failed on the way there.
func (r *ranking) value(i, rung int) (v float64, known bool) {
	t := &r.trials[i]
	switch {
	case r.has(i, rung):
		return t.Values[min(rung, len(t.Values)-1)], true
	case t.Err != nil:
		return math.NaN(), true
	}
	return 0, false
}

func finite(v float64) bool { return !math.IsNaN(v) && !math.IsInf(v, 0) }

// compare puts the better of two values at a rung first, those that are not finite last, and equal ones by number.
func (r *ranking) compare(a, b, rung int) int {
	x, _ := r.value(a, rung)
	y, _ := r.value(b, rung)
	return cmp.Or(compareValues(x, y, r.lower), cmp.Compare(a, b))
}

// compareValues puts the better value first, and those that are not finite last.
func compareValues(x, y float64, lower bool) int {
	switch {
	case finite(x) != finite(y):
		if finite(x) {
			return -1
		}
		return 1
	case !finite(x):
		return 0
	case lower:
		return cmp.Compare(x, y)
	}
	return cmp.Compare(y, x)
}

// order has all trials, the best first: by the rung that they reached, then by their value there.
func (r *ranking) order() []int {
	list := make([]int, len(r.trials))
	for i := range list {
		list[i] = i
	}
	slices.SortFunc(list, func(a, b int) int {
		if c := cmp.Compare(r.reached[b], r.reached[a]); c != 0 || r.reached[a] < 0 {
			return cmp.Or(c, cmp.Compare(a, b))
		}
		return r.compare(a, b, r.reached[a])
	})
	return list
}

func (r *ranking) state(i int) State {
	t := &r.trials[i]
	switch {
	case t.Running:
		return Running
	case r.out[i]:
		return Out
	case r.finished[i]:
		return Finished
	case t.Err != nil:
		return Failed
	}
	return Waiting
}
