package phase

import (
	"context"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"github.com/schollz/progressbar/v3"

	"github.com/berth-ml/berth/cmd/trainer/internal/console"
	"github.com/berth-ml/berth/internal/units"
)

// Redraw is the time between drawings on a terminal, long enough not to flicker.
const Redraw = 200 * time.Millisecond

// Heartbeat is the time between lines that say that something goes on, where
// there is no terminal.
const Heartbeat = 15 * time.Second

// patience is the time before a spinner appears: short phases show none.
const patience = time.Second

// Wait shows that a phase without countable steps goes on, such as "planning",
// until done is called or ctx ends. A nil out shows nothing.
func Wait(ctx context.Context, out io.Writer, phase string) (done func()) {
	return WaitFor(ctx, out, phase, &Share{})
}

// Share is how much of a phase is done, from 0 to 1, where that is known.
type Share struct{ part atomic.Pointer[string] }

// Set says how much of measuring is done.
func (s *Share) Set(share float64) {
	text := fmt.Sprintf("%d%% of the segments timed", int(100*share))
	s.part.Store(&text)
}

// Say says what is done as a part of the phase, and how much of that. The part is
// over at 1.
func (s *Share) Say(doing string, share float64) {
	text := fmt.Sprintf("%s, %d%%", doing, int(100*share))
	if share >= 1 {
		text = ""
	}
	s.part.Store(&text)
}

// text is the part behind the name of a phase.
func (s *Share) text(phase string) string {
	if part := s.part.Load(); part != nil && *part != "" {
		return phase + ", " + *part
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
		if !console.Redraws(out) {
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
	for pause(ctx, Redraw) {
		bar.Describe(share.text(phase))
		bar.Add(1)
	}
}

// beat writes a line now and then.
func beat(ctx context.Context, out io.Writer, phase string, share *Share) {
	began := time.Now()
	for pause(ctx, Heartbeat) {
		fmt.Fprintf(out, "%s …  %s\n", share.text(phase), units.Clock(time.Since(began)))
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
