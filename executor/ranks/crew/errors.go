package crew

import (
	"errors"
	"fmt"
	"time"
)

// ErrSilent: a rank has sent nothing for too long, or none has got on.
var ErrSilent = errors.New("a rank is silent")

// lostError is an ErrSilent.
type lostError string

func (e lostError) Error() string { return string(e) + "; start all ranks again" }

// Is reports whether target is ErrSilent.
func (lostError) Is(target error) bool { return target == ErrSilent }

// lostf is an ErrSilent, worded like fmt.Sprintf.
func lostf(format string, args ...any) error { return lostError(fmt.Sprintf(format, args...)) }

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

// ExitLost is the exit code after a rank was given up: starting again goes on.
const ExitLost = 75

// codes are the exit codes of kinds.
var codes = map[Kind]int{Failed: 1, Mistake: 2, Stopped: ExitLost}

// lose ends all ranks, and tells why: rank 0, or where it is silent another one.
func (c *Crew) lose(err error, code int) {
	if c.Rank() > 0 {
		c.vigil.say(lastWord{err.Error(), code})
		if c.vigil.awaitEnd() {
			return
		}
	}
	c.losing.Do(func() {
		if c.Rank() == 0 {
			c.vigil.say(lastWord{err.Error(), code})
		}
		if c.opt.Lost != nil {
			c.opt.Lost(err)
		}
		c.Abort(code)
	})
}

// Tell tells rank 0 of a failure of this rank alone, which ends all: rank 0 tells the user the first one, and aborts. The caller
// aborts, too; unless told is true, it tells the user before. A second call has the result of the first.
func (c *Crew) Tell(err error) (told bool) {
	c.telling.Do(func() {
		w := lastWord{c.text(err), c.Code(err)}
		if c.Rank() > 0 {
			c.vigil.say(w)
			c.told = c.vigil.awaitEnd()
			return
		}
		c.told = true
		c.losing.Do(func() { // else another one is told, and this process ends
			c.told = false
			c.vigil.say(w)
		})
	})
	return c.told
}

// Cut ends the messages of this rank after a failure, once it has told others: nothing of its memory is used any more.
func (c *Crew) Cut(err error) { c.transport.Fail(err) }

// Quit is Tell and Cut after a failure of this rank, before the memory of its messages is given back: others hear of it, and of
// what else they wait for nothing comes. After a [Verdict], which all have, it does nothing. nil is a panic, of which the process
// tells as it ends.
func (c *Crew) Quit(err error) {
	if _, all := errors.AsType[*Verdict](err); all {
		return
	}
	if err != nil {
		c.Tell(err)
	}
	c.Cut(errors.New("this rank has failed"))
}

// Code is the exit code of a process whose error that is.
func (c *Crew) Code(err error) int { return codes[c.kindOf(err)] }

// text words an error for the user.
func (c *Crew) text(err error) string {
	if c.opt.Text == nil {
		return err.Error()
	}
	return c.opt.Text(err)
}

// silent is an ErrSilent of a rank.
func (c *Crew) silent(rank int, after time.Duration) error {
	return lostf("nothing has come from %s for %v: it hangs, or its machine cannot be reached", c.Name(rank), after.Round(time.Second))
}
