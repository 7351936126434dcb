package progress

import (
	"context"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"github.com/schollz/progressbar/v3"

	"github.com/berth-ml/berth/cmd/trainer/internal/console"
	"github.com/berth-ml/berth/cmd/trainer/internal/text"
)

// redraw is the time between drawings on a terminal, long enough not to flicker.
const redraw = 200 * time.Millisecond

// heartbeat is the time between lines that say that something goes on, where
// there is no terminal.
const heartbeat = 15 * time.Second

// patience is the time before a spinner appears: short phases show none.
const patience = time.Second

// Wait shows that a phase without countable steps goes on, such as "planning",
// until done is called or ctx ends. A nil out shows nothing.
func Wait(ctx context.Context, out io.Writer, phase string) (done func()) {
	return WaitFor(ctx, out, phase, &Share{})
}

// Share is how much of a phase is done, from 0 to 1, where that is known.
type Share struct{ thousandths atomic.Int64 }

// Set says how much is done.
func (s *Share) Set(share float64) { s.thousandths.Store(int64(1000 * share)) }

// text is the share behind the name of a phase.
func (s *Share) text(phase string) string {
	if n := s.thousandths.Load(); n > 0 {
		return fmt.Sprintf("%s, %d%% of the segments timed", phase, n/10)
	}
	return phase
}

// WaitFor is Wait for a phase of which a share may be known.
func WaitFor(ctx context.Context, out io.Writer, phase string, share *Share) (done func()) {
	if out == nil {
		return func() {}
	}
	ctx, cancel := context.WithCancel(ctx)
	var over sync.WaitGroup
	over.Go(func() {
		if console.Terminal(out) == nil {
			beat(ctx, out, phase, share)
			return
		}
		spin(ctx, out, phase, share)
	})
	return sync.OnceFunc(func() {
		cancel()
		over.Wait()
	})
}

// spin turns a spinner on a terminal.
func spin(ctx context.Context, out io.Writer, phase string, share *Share) {
	if !pause(ctx, patience) {
		return
	}
	bar := progressbar.NewOptions(-1, progressbar.OptionSetWriter(out), progressbar.OptionUseANSICodes(true),
		progressbar.OptionSetDescription(phase), progressbar.OptionSpinnerType(14),
		progressbar.OptionSetSpinnerChangeInterval(0), progressbar.OptionSetElapsedTime(true))
	defer bar.Clear()
	for pause(ctx, redraw) {
		bar.Describe(share.text(phase))
		bar.Add(1)
	}
}

// beat writes a line now and then.
func beat(ctx context.Context, out io.Writer, phase string, share *Share) {
	began := time.Now()
	for pause(ctx, heartbeat) {
		fmt.Fprintf(out, "%s …  %s\n", share.text(phase), text.Clock(time.Since(began)))
	}
}

// pause waits for d, and reports whether ctx has not ended meanwhile.
func pause(ctx context.Context, d time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(d):
		return true
	}
}
