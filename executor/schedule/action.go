package schedule

import (
	"fmt"
	"strconv"
	"strings"
)

// Kind is a pass over a microbatch, a sum or the update.
type Kind byte

// The kinds of actions, by the letter they print as.
const (
	Forward  Kind = 'F' // the forward pass of one microbatch
	Backward Kind = 'B' // its backward pass; where the schedule has W, the gradients of inputs alone
	Weights  Kind = 'W' // the gradients of its weights, and their sums over microbatches
	Reduce   Kind = 'R' // two sums over neighbouring microbatches become one
	Update   Kind = 'U' // the update of the stage's variables, once per step
)

// OfMicrobatch reports whether it is a pass over a microbatch.
func (k Kind) OfMicrobatch() bool { return k == Forward || k == Backward || k == Weights }

// kindLetters are the kinds in the order in which a microbatch meets them.
const kindLetters = "FBWRU"

// Action is one cell of a schedule: a stage does something for a microbatch. An
// update is for no microbatch. A reduction adds the sum that begins with the
// microbatch onto the sum before it.
type Action struct {
	Stage      int
	Kind       Kind
	Microbatch int // of the step, whatever the replica; 0 for Update
	Replica    int // of the stage
}

// String is "1F0", "2B3" or "0U"; of replica 1, "1F4@1".
func (a Action) String() string {
	s := strconv.Itoa(a.Stage) + string(a.Kind)
	if a.Kind != Update {
		s += strconv.Itoa(a.Microbatch)
	}
	return s + ofReplica(a.Replica)
}

// ofReplica is the end of an action's text; "" for the first replica.
func ofReplica(replica int) string {
	if replica == 0 {
		return ""
	}
	return "@" + strconv.Itoa(replica)
}

// ParseAction reads what [Action.String] prints.
func ParseAction(text string) (Action, error) {
	rest, replica, err := cutReplica(text)
	text = shown(text)
	if err != nil {
		return Action{}, fmt.Errorf("%w: replica of action %q: %w", ErrSyntax, text, err)
	}
	i := strings.IndexAny(rest, kindLetters)
	if i < 0 {
		return Action{}, fmt.Errorf("%w: action %q has none of the letters F, B, W, R, U; write it like 1F0, 2B3 or 0U", ErrSyntax, text)
	}
	a := Action{Kind: Kind(rest[i]), Replica: replica}
	if a.Stage, err = number(rest[:i]); err != nil {
		return Action{}, fmt.Errorf("%w: stage of action %q: %w", ErrSyntax, text, err)
	}
	rest = rest[i+1:]
	if a.Kind == Update {
		if rest != "" {
			return Action{}, fmt.Errorf("%w: action %q: an update has no microbatch, write %dU", ErrSyntax, text, a.Stage)
		}
		return a, nil
	}
	if a.Microbatch, err = number(rest); err != nil {
		return Action{}, fmt.Errorf("%w: microbatch of action %q: %w", ErrSyntax, text, err)
	}
	return a, nil
}

// cutReplica takes "@1" off the end of a text; without it the replica is 0.
func cutReplica(text string) (rest string, replica int, err error) {
	rest, digits, ok := strings.Cut(text, "@")
	if !ok {
		return rest, 0, nil
	}
	replica, err = number(digits)
	if err == nil && replica == 0 {
		err = fmt.Errorf("the first replica is written without @0")
	}
	return rest, replica, err
}

// number reads a decimal without sign or leading zeros: each number has one text.
func number(s string) (int, error) {
	n, err := strconv.Atoi(s)
	if err != nil || n < 0 || strconv.Itoa(n) != s {
		return 0, fmt.Errorf("%q is not a whole number of at least 0", shown(s))
	}
	return n, nil
}

// shown is a text for a message, cut off where it is long.
func shown(text string) string {
	const most = 60
	if len(text) > most {
		text = strings.ToValidUTF8(text[:most], "") + "…"
	}
	return text
}
