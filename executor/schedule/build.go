package schedule

import (
	"fmt"
	"slices"
	"strings"
)

// builders are the schedules by name.
var builders = map[string]func(stages, microbatches int) Schedule{
	"gpipe":   GPipe,
	"1f1b":    OneFOneB,
	"forward": ForwardOnly,
}

// Names lists the names that [New] knows, in order.
func Names() []string {
	var names []string
	for n := range builders {
		names = append(names, n)
	}
	slices.Sort(names)
	return names
}

// New makes the schedule of that name. Stages and microbatches are at least 1.
func New(name string, stages, microbatches int) (Schedule, error) {
	build := builders[name]
	if build == nil {
		return Schedule{}, fmt.Errorf("%w %q: choose one of %s", ErrUnknown, name, strings.Join(Names(), ", "))
	}
	if stages < 1 || microbatches < 1 {
		return Schedule{}, fmt.Errorf("%w: %d stages and %d microbatches; give at least 1 of each", ErrInvalid, stages, microbatches)
	}
	return build(stages, microbatches), nil
}

// GPipe runs every forward pass, then every backward pass (Huang et al.,
// "GPipe", 2019). Every stage has all microbatches in flight at once.
func GPipe(stages, microbatches int) Schedule {
	return build("gpipe", stages, microbatches, func(s int) []Action {
		var row []Action
		for m := range microbatches {
			row = append(row, Action{s, Forward, m})
		}
		for m := range microbatches {
			row = append(row, Action{s, Backward, m})
		}
		return row
	})
}

// OneFOneB alternates forward and backward passes as soon as the last stage
// has its first microbatch (Narayanan et al., "PipeDream", 2019; the flushing
// variant). Its bubble is GPipe's, but a stage has at most as many microbatches
// in flight as there are stages from it to the end.
func OneFOneB(stages, microbatches int) Schedule {
	return build("1f1b", stages, microbatches, func(s int) []Action {
		ahead := min(stages-1-s, microbatches) // forward passes before the first backward pass, less one
		var row []Action
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

// ForwardOnly has no backward pass: evaluation and prediction.
func ForwardOnly(stages, microbatches int) Schedule {
	return build("forward", stages, microbatches, func(s int) []Action {
		var row []Action
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
