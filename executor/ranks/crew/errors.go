package crew

import (
	"errors"
	"fmt"
	"time"
)

// ErrSilent: a rank has sent nothing for too long.
var ErrSilent = errors.New("a rank is silent")

// Kind says what an error is for whoever started the ranks.
type Kind int

// The kinds.
const (
	Failed  Kind = iota // it went wrong
	Mistake             // in a config or a call
	Stopped             // nothing is wrong, and starting again goes on
)

// Verdict is an error that all ranks have. Rank 0 tells the user.
type Verdict struct {
	Rank int // where it happened; of a difference, the first that differs from rank 0
	Kind Kind
	Text string
	err  error // of this rank; nil where it is another's
}

// Error is the message.
func (v *Verdict) Error() string { return v.Text }

// Unwrap is the cause, where this rank has it.
func (v *Verdict) Unwrap() error { return v.err }

// isSilent reports whether an error is an ErrSilent.
func isSilent(err error) bool { return errors.Is(err, ErrSilent) }

// lost gives up a rank, and so all.
func (c *Crew) lost(err error) {
	c.losing.Do(func() {
		if c.opt.Lost != nil {
			c.opt.Lost(err)
		}
		c.Abort(ExitLost)
	})
}

// silent is an ErrSilent of a rank.
func (c *Crew) silent(rank int, what string, after time.Duration) error {
	return fmt.Errorf("%w: %s has sent nothing for %v, and %s is waited for: it hangs, or has ended; start all ranks again",
		ErrSilent, c.Name(rank), after, what)
}
