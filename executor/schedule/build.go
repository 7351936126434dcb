package schedule

import (
	"fmt"
	"slices"
	"strings"
)

// kind is a named schedule: how it is built, and the most microbatches of a
// stage that are in flight at once.
type kind struct {
	build    func(stages, microbatches int) Schedule
	inFlight func(stages, microbatches, stage int) int
}

// kinds are the schedules by name.
var kinds = map[string]kind{
	"gpipe":   {gpipe, func(_, microbatches, _ int) int { return microbatches }},
	"1f1b":    {oneFOneB, func(stages, microbatches, stage int) int { return min(microbatches, stages-stage) }},
	"forward": {forwardOnly, func(_, _, _ int) int { return 1 }},
}

// Names lists the names that [New] knows, in order.
func Names() []string {
	var names []string
	for n := range kinds {
		names = append(names, n)
	}
	slices.Sort(names)
	return names
}

// mostCells bounds the schedules that [New] makes: stages times microbatches. The
// tasks and tensors of one microbatch take tens of kilobytes of host memory.
const mostCells = 1 << 16

// New makes the schedule of that name:
//
//   - gpipe runs every forward pass, then every backward pass. Every stage has all
//     microbatches in flight at once.
//   - 1f1b alternates forward and backward passes as soon as the last stage has its
//     first microbatch. Its bubble is that of gpipe, but a stage has at most as many
//     microbatches in flight as there are stages from it to the end.
//   - forward has no backward pass: evaluation and prediction.
//
// Stages and microbatches are at least 1, and not more than a step can have
// ([ErrInvalid]).
func New(name string, stages, microbatches int) (Schedule, error) {
	if err := Check(name, stages, microbatches); err != nil {
		return Schedule{}, err
	}
	return kinds[name].build(stages, microbatches), nil
}

// Check is the error of [New], without making the schedule.
func Check(name string, stages, microbatches int) error {
	_, err := find(name, stages, microbatches)
	switch {
	case err != nil:
		return err
	case stages > mostCells:
		return sizeError(fmt.Sprintf("%d stages are too many: use at most %d", stages, mostCells))
	case microbatches > mostCells/stages:
		return sizeError(fmt.Sprintf("%d microbatches are too many for a step on %s: use at most %d, and larger ones",
			microbatches, plural(stages, "stage"), mostCells/stages))
	}
	return nil
}

// sizeError is an ErrInvalid about numbers of stages or microbatches.
type sizeError string

func (e sizeError) Error() string { return string(e) }
func (e sizeError) Unwrap() error { return ErrInvalid }

// plural is a number of things.
func plural(n int, thing string) string {
	if n != 1 {
		thing += "s"
	}
	return fmt.Sprintf("%d %s", n, thing)
}

// InFlight is [Schedule.InFlight] of the schedule that [New] makes, without
// making it.
func InFlight(name string, stages, microbatches, stage int) (int, error) {
	k, err := find(name, stages, microbatches)
	if err != nil {
		return 0, err
	}
	return k.inFlight(stages, microbatches, stage), nil
}

// find finds a schedule by name, and checks its size.
func find(name string, stages, microbatches int) (kind, error) {
	k, ok := kinds[name]
	if !ok {
		return kind{}, fmt.Errorf("%w %q: choose one of %s", ErrUnknown, name, strings.Join(Names(), ", "))
	}
	if stages < 1 || microbatches < 1 {
		return kind{}, sizeError(fmt.Sprintf("%d stages and %d microbatches: use at least 1 of each", stages, microbatches))
	}
	return k, nil
}

// gpipe follows Huang et al., "GPipe", 2019.
func gpipe(stages, microbatches int) Schedule {
	return build("gpipe", stages, microbatches, func(s int) []Action {
		row := make([]Action, 0, 2*microbatches+1)
		for m := range microbatches {
			row = append(row, Action{s, Forward, m})
		}
		for m := range microbatches {
			row = append(row, Action{s, Backward, m})
		}
		return row
	})
}

// oneFOneB follows Narayanan et al., "PipeDream", 2019: the flushing variant.
func oneFOneB(stages, microbatches int) Schedule {
	return build("1f1b", stages, microbatches, func(s int) []Action {
		ahead := min(stages-1-s, microbatches) // forward passes before the first backward pass, less one
		row := make([]Action, 0, 2*microbatches+1)
		for m := range ahead {
			row = append(row, Action{s, Forward, m})
		}
		for m := range microbatches {
			if ahead+m < microbatches {
				row = append(row, Action{s, Forward, ahead + m})
			}
			row = append(row, Action{s, Backward, m})
		}
		return row
	})
}

func forwardOnly(stages, microbatches int) Schedule {
	return build("forward", stages, microbatches, func(s int) []Action {
		row := make([]Action, 0, microbatches+1)
		for m := range microbatches {
			row = append(row, Action{s, Forward, m})
		}
		return row
	})
}

func build(name string, stages, microbatches int, row func(stage int) []Action) Schedule {
	s := Schedule{Name: name, Stages: stages, Microbatches: microbatches}
	for i := range stages {
		s.PerStage = append(s.PerStage, append(row(i), Action{Stage: i, Kind: Update}))
	}
	return s
}
