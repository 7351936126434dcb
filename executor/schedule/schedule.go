package schedule

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// The causes of this package's errors.
var (
	ErrInvalid = errors.New("invalid schedule")
	ErrSyntax  = errors.New("not a schedule")
	ErrUnknown = errors.New("unknown schedule")
)

// Kind is a pass over a microbatch, or the update.
type Kind byte

// The kinds of actions, by the letter they print as.
const (
	Forward  Kind = 'F' // the forward pass of one microbatch
	Backward Kind = 'B' // its backward pass
	Weights  Kind = 'W' // the gradients of its weights, and their sums over microbatches
	Update   Kind = 'U' // the update of the stage's variables, once per step
)

// Action is one cell of a schedule: a stage does something, for a microbatch
// unless it is an update.
type Action struct {
	Stage      int
	Kind       Kind
	Microbatch int // 0 for Update
}

// String is "1F0", "2B3" or "0U".
func (a Action) String() string {
	s := strconv.Itoa(a.Stage) + string(a.Kind)
	if a.Kind == Update {
		return s
	}
	return s + strconv.Itoa(a.Microbatch)
}

// ParseAction reads what [Action.String] prints.
func ParseAction(text string) (Action, error) {
	i := strings.IndexAny(text, "FBU")
	if i < 0 {
		return Action{}, fmt.Errorf("%w: action %q has none of the letters F, B, U; write it like 1F0, 2B3 or 0U", ErrSyntax, text)
	}
	a := Action{Kind: Kind(text[i])}
	var err error
	if a.Stage, err = number(text[:i]); err != nil {
		return Action{}, fmt.Errorf("%w: stage of action %q: %w", ErrSyntax, text, err)
	}
	rest := text[i+1:]
	if a.Kind == Update {
		if rest != "" {
			return Action{}, fmt.Errorf("%w: action %q: an update has no microbatch, write %q", ErrSyntax, text, text[:i+1])
		}
		return a, nil
	}
	if a.Microbatch, err = number(rest); err != nil {
		return Action{}, fmt.Errorf("%w: microbatch of action %q: %w", ErrSyntax, text, err)
	}
	return a, nil
}

// number reads a decimal without sign or leading zeros: each number has one text.
func number(s string) (int, error) {
	n, err := strconv.Atoi(s)
	if err != nil || n < 0 || strconv.Itoa(n) != s {
		return 0, fmt.Errorf("%q is not a number from 0 on", s)
	}
	return n, nil
}

// Schedule is the work of one step: for each stage its actions in order.
type Schedule struct {
	Name         string
	Stages       int
	Microbatches int
	PerStage     [][]Action // indexed by stage
}

// backward reports whether the schedule has a backward pass.
func (s Schedule) backward() bool {
	for _, row := range s.PerStage {
		for _, a := range row {
			if a.Kind == Backward {
				return true
			}
		}
	}
	return false
}

// InFlight is the most microbatches of a stage that are between their F and
// their B at once, which is the number of copies of its activations in memory. It
// is 1 without a backward pass.
func (s Schedule) InFlight(stage int) int {
	live, most, back := 0, 0, false
	for _, a := range s.PerStage[stage] {
		switch a.Kind {
		case Forward:
			live++
			most = max(most, live)
		case Backward:
			live--
			back = true
		}
	}
	if !back {
		return 1
	}
	return most
}
