package main

import (
	"bytes"
	"context"
	"syscall"
	"testing"
	"time"

	"github.com/berth-ml/berth"
)

// heard is a writer whose writes can be waited for.
type heard struct{ to chan string }

func (l heard) Write(b []byte) (int, error) {
	l.to <- string(b)
	return len(b), nil
}

// A signal promises to save only where there is something to save.
func TestWhatASignalSays(t *testing.T) {
	for _, started := range []bool{false, true} {
		ctx, cancel := context.WithCancel(withStopping(t.Context()))
		want := "stopping; once more to stop at once\n"
		if started {
			o := &berth.Observer{Started: func(berth.Start) {}, Note: func(string) {}}
			savesFrom(ctx, o, func() {}).Started(berth.Start{})
			want = "stopping once what is under way is finished and saved; once more to stop at once\n"
		}
		said := heard{make(chan string, 4)}
		undo := onSignal(ctx, cancel, said)
		if err := syscall.Kill(syscall.Getpid(), syscall.SIGTERM); err != nil {
			t.Fatal(err)
		}
		<-ctx.Done()
		undo()
		got := ""
		for len(said.to) > 0 {
			got += <-said.to
		}
		if got != want {
			t.Errorf("started %v: it says %q, want %q", started, got, want)
		}
	}
}

// Waiting ends at once when it is told to, or the context ends, and has then
// written its last.
func TestWaitingEnds(t *testing.T) {
	for _, cancelled := range []bool{false, true} {
		ctx, cancel := context.WithCancel(t.Context())
		var out bytes.Buffer
		began := time.Now()
		done := waiting(ctx, &out, "planning")
		if cancelled {
			cancel()
		}
		done()
		done()
		cancel()
		if out.Len() > 0 || time.Since(began) > heartbeat {
			t.Errorf("cancelled %v: it wrote %q", cancelled, out.String())
		}
	}
	waiting(t.Context(), nil, "planning")()
}
