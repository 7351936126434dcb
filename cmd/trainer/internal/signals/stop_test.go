//go:build unix

package signals

import (
	"context"
	"errors"
	"syscall"
	"testing"
	"time"

	"github.com/berth-ml/berth/cmd/trainer/internal/cli"
)

// heard is a writer whose writes can be waited for.
type heard struct{ to chan string }

func (l heard) Write(b []byte) (int, error) {
	l.to <- string(b)
	return len(b), nil
}

// A signal promises to save only where there is something to save.
func TestFirstSignal(t *testing.T) {
	for saves, want := range map[bool]string{
		false: "stopping; a second signal stops at once\n",
		true:  "stopping once this step is finished and saved; a second signal stops at once\n",
	} {
		var stop Stop
		stop.Saves(saves)
		said := heard{make(chan string, 4)}
		ctx, undo := stop.Watch(t.Context(), said)
		if err := syscall.Kill(syscall.Getpid(), syscall.SIGTERM); err != nil {
			t.Fatal(err)
		}
		<-ctx.Done()
		if cause := context.Cause(ctx); !errors.Is(cause, context.Canceled) || cause.Error() != "a signal came (terminated)" {
			t.Errorf("the cause is %v", cause)
		}
		undo()
		got := ""
		for len(said.to) > 0 {
			got += <-said.to
		}
		if got != want {
			t.Errorf("saves %v: it says %q, want %q", saves, got, want)
		}
	}
}

// What comes right after a signal is part of it.
func TestBurst(t *testing.T) {
	var stop Stop
	said := heard{make(chan string, 4)}
	ctx, undo := stop.watch(t.Context(), said, time.Hour) // however slowly the signals come
	defer undo()
	for _, s := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT} { // two of one kind may be one for the system, too
		if err := syscall.Kill(syscall.Getpid(), s); err != nil {
			t.Fatal(err)
		}
	}
	<-ctx.Done()
	time.Sleep(50 * time.Millisecond) // a second signal would have ended this process
	if got := len(said.to); got != 1 {
		t.Errorf("it says %d lines, want 1", got)
	}
}

// A signal at a question says nothing about stopping.
func TestSignalAtQuestion(t *testing.T) {
	var stop Stop
	stop.Asks(true)
	said := heard{make(chan string, 4)}
	ctx, undo := stop.Watch(t.Context(), said)
	if err := syscall.Kill(syscall.Getpid(), syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	<-ctx.Done()
	undo()
	select {
	case text := <-said.to:
		t.Errorf("told %q", text)
	default:
	}
}

// The second signal says what of the run stays.
func TestSecondSignal(t *testing.T) {
	for saves, want := range map[bool]string{
		false: "stopped at once",
		true:  "stopped at once: the checkpoints so far are whole, the steps since the newest are lost",
	} {
		var stop Stop
		stop.Saves(saves)
		if got := stop.second(); got != want {
			t.Errorf("saves %v: %q, want %q", saves, got, want)
		}
	}
}

// A second signal does not turn a run that is saved, or finished, into a failure.
func TestSecondSignalAtTheEnd(t *testing.T) {
	var stop Stop
	if got := stop.code(); got != cli.ExitFailure {
		t.Errorf("exit code %d", got)
	}
	for _, code := range []int{cli.ExitStopped, cli.ExitOK} {
		stop.Done(code)
		if got := stop.code(); got != code {
			t.Errorf("exit code %d, want %d", got, code)
		}
	}
}
