package schedule

import "fmt"

// Validate checks that every stage has each of its actions exactly once, in an
// order that can be run, with F and B in microbatch order. The error names the
// action, and shows the grid with its cell in brackets.
func (s Schedule) Validate() error {
	if s.Stages < 1 || s.Microbatches < 1 || len(s.PerStage) != s.Stages {
		return fmt.Errorf("%w: %d stages, %d microbatches and %d rows; give at least 1 of each and a row per stage",
			ErrInvalid, s.Stages, s.Microbatches, len(s.PerStage))
	}
	back := s.backward()
	for stage := range s.PerStage {
		if err := s.validateStage(stage, back); err != nil {
			return err
		}
	}
	t := s.Simulate(TypicalCost)
	if len(t.Stuck) == 0 {
		return nil
	}
	a, waits := s.blocked(t)
	return s.fail(a, fmt.Sprintf("is in a deadlock: it waits for %v, which never runs before it", waits))
}

// validateStage checks one row by itself.
func (s Schedule) validateStage(stage int, back bool) error {
	next := map[Kind]int{}
	updated := false
	for _, a := range s.PerStage[stage] {
		if why := s.misplaced(a, stage); why != "" {
			return s.fail(a, why)
		}
		if updated {
			return s.fail(a, "comes after the stage's update; the update must be the last action of a stage")
		}
		if a.Kind == Update {
			updated = true
			continue
		}
		if a.Microbatch < next[a.Kind] {
			return s.fail(a, "is a duplicate")
		}
		if want := (Action{stage, a.Kind, next[a.Kind]}); a != want {
			return s.fail(a, fmt.Sprintf("is out of order: %v must come first, microbatches are summed in their order", want))
		}
		if a.Kind == Backward && next[Forward] <= a.Microbatch {
			return s.fail(a, fmt.Sprintf("comes before %v", Action{stage, Forward, a.Microbatch}))
		}
		next[a.Kind]++
	}
	return s.complete(stage, next, back, updated)
}

// misplaced describes the fault of an action by itself; "" if it has none.
func (s Schedule) misplaced(a Action, stage int) string {
	switch {
	case a.Stage != stage:
		return fmt.Sprintf("stands in the row of stage %d", stage)
	case a.Kind != Forward && a.Kind != Backward && a.Kind != Update:
		return "is of no known kind; the kinds are F, B and U"
	case a.Microbatch < 0 || a.Microbatch >= s.Microbatches:
		return fmt.Sprintf("is outside the microbatches 0 to %d", s.Microbatches-1)
	case a.Kind == Update && a.Microbatch != 0:
		return "is an update for one microbatch; an update is for all"
	}
	return ""
}

// complete checks that nothing is missing from a row, given how many of each
// kind it has.
func (s Schedule) complete(stage int, have map[Kind]int, back, updated bool) error {
	if m := have[Forward]; m < s.Microbatches {
		return s.fail(Action{stage, Forward, m}, "is missing")
	}
	if m := have[Backward]; back && m < s.Microbatches {
		return s.fail(Action{stage, Backward, m}, "is missing")
	}
	if !updated {
		return s.fail(Action{Stage: stage, Kind: Update}, "is missing")
	}
	return nil
}

// blocked finds the first action that is stuck in a deadlock, and the one that it
// waits for.
func (s Schedule) blocked(t Timeline) (a, waits Action) {
	ran := map[Action]bool{}
	for _, sp := range t.Spans {
		ran[sp.Action] = true
	}
	a = t.Stuck[0]
	for _, d := range s.depends(a) {
		if !ran[d] {
			return a, d
		}
	}
	panic("BUG: " + a.String() + " is stuck but waits for nothing")
}

func (s Schedule) fail(a Action, why string) error {
	return fmt.Errorf("%w: %v %s\n%s", ErrInvalid, a, why, s.Grid(a))
}
