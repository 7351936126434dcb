package signals

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/berth-ml/berth/cmd/trainer/internal/cli"
	"github.com/berth-ml/berth/cmd/trainer/internal/console"
)

// Stop turns SIGINT, SIGTERM and SIGHUP into requests to stop.
type Stop struct {
	saves atomic.Bool
	asks  atomic.Bool
	done  atomic.Pointer[int] // the exit code of what is done; nil before that
	quiet atomic.Bool
	later atomic.Int64                   // Later's time
	comes atomic.Pointer[chan os.Signal] // where signals come; nil before Watch
	log   atomic.Pointer[func(string)]   // Log's function; nil: standard error has the lines
}

// Silent has the process say nothing of signals from now on: another one, which has them, too, does.
func (s *Stop) Silent() { s.quiet.Store(true) }

// Log has log write what is said of signals from now on: a server's lines have their time.
func (s *Stop) Log(log func(line string)) { s.log.Store(&log) }

// say says something of a signal.
func (s *Stop) say(stderr io.Writer, text string) {
	clear := console.ClearLine(stderr)
	if log := s.log.Load(); log != nil {
		fmt.Fprint(stderr, clear)
		(*log)(text)
		return
	}
	fmt.Fprintf(stderr, "%s%s\n", clear, text)
}

// Later has the process speak of a first signal only where it has more to do after that time. A launcher sends one to
// all processes when one has ended, and then a signal is not what happened.
func (s *Stop) Later(d time.Duration) { s.later.Store(int64(d)) }

// User2 makes SIGUSR2 a request to stop, too, where the system has it: launchers of several processes that end them
// soon after a SIGTERM pass it on.
func (s *Stop) User2() {
	if c := s.comes.Load(); c != nil && user2Signal != nil {
		signal.Notify(*c, user2Signal)
	}
}

// Done says that only printing is left, after which the process ends with an exit
// code. A second signal then ends it with that code.
func (s *Stop) Done(code int) { s.done.Store(&code) }

// Saves says whether a stop saves from now on: a training under way does, and
// nothing else has anything to save. What the user is told depends on it.
func (s *Stop) Saves(saves bool) { s.saves.Store(saves) }

// Asks says whether the program waits for an answer from now on. A signal then ends it
// at once, and there is nothing to tell about stopping.
func (s *Stop) Asks(asks bool) { s.asks.Store(asks) }

// burst is the time within which signals are one: timeout(1) sends SIGTERM to the process
// and, at once, to its group.
const burst = 100 * time.Millisecond

// Watch returns a context that ends with the first signal, which its cause names,
// and ends the process at the second, which comes after burst. A signal that is ignored, as nohup
// has SIGHUP ignored, stays so. The caller calls undo.
func (s *Stop) Watch(ctx context.Context, stderr io.Writer) (watched context.Context, undo func()) {
	return s.watch(ctx, stderr, burst)
}

func (s *Stop) watch(ctx context.Context, stderr io.Writer, burst time.Duration) (watched context.Context, undo func()) {
	watched, cancel := context.WithCancelCause(ctx)
	c, done := make(chan os.Signal, 2), make(chan struct{})
	s.comes.Store(&c)
	for _, s := range []os.Signal{os.Interrupt, syscall.SIGTERM, syscall.SIGHUP} {
		if !signal.Ignored(s) {
			signal.Notify(c, s)
		}
	}
	go func() {
		var first time.Time
		select {
		case sig := <-c:
			first = time.Now()
			if later := s.later.Load(); later == 0 {
				s.tell(stderr)
			} else {
				time.AfterFunc(time.Duration(later), func() {
					if s.done.Load() == nil {
						s.tell(stderr)
					}
				})
			}
			cancel(interrupted{sig})
		case <-done:
			return
		}
		for {
			select {
			case sig := <-c:
				// A closed terminal's may come twice: from the system and from the shell.
				if sig != syscall.SIGHUP && time.Since(first) > burst {
					if !s.quiet.Load() {
						s.say(stderr, s.second())
					}
					os.Exit(s.code())
				}
			case <-done:
				return
			}
		}
	}()
	return watched, func() {
		signal.Stop(c)
		close(done)
		cancel(nil)
	}
}

// tell tells of the first signal.
func (s *Stop) tell(stderr io.Writer) {
	if !s.asks.Load() && !s.quiet.Load() {
		s.say(stderr, s.first())
	}
}

// interrupted is the cause of a context that a signal ended. It wraps
// context.Canceled.
type interrupted struct{ by os.Signal }

func (i interrupted) Error() string { return fmt.Sprintf("a signal came (%v)", i.by) }

func (i interrupted) Unwrap() error { return context.Canceled }

// first is the message at the first signal.
func (s *Stop) first() string {
	if s.saves.Load() {
		return "stopping once this step is finished and saved; a second signal stops at once"
	}
	return "stopping; a second signal stops at once"
}

// code is the exit code at the second signal.
func (s *Stop) code() int {
	if code := s.done.Load(); code != nil {
		return *code
	}
	return cli.ExitFailure
}

// second is the message at the second signal.
func (s *Stop) second() string {
	if s.saves.Load() {
		return "stopped at once: the checkpoints so far are whole, the steps since the newest are lost"
	}
	return "stopped at once"
}
