package progress

import (
	"context"
	"fmt"
	"io"
	"sync"
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
	if out == nil {
		return func() {}
	}
	ctx, cancel := context.WithCancel(ctx)
	var over sync.WaitGroup
	over.Go(func() {
		if console.Terminal(out) == nil {
			beat(ctx, out, phase)
			return
		}
		spin(ctx, out, phase)
	})
	return sync.OnceFunc(func() {
		cancel()
		over.Wait()
	})
}

// spin turns a spinner on a terminal.
func spin(ctx context.Context, out io.Writer, phase string) {
	if !pause(ctx, patience) {
		return
	}
	bar := progressbar.NewOptions(-1, progressbar.OptionSetWriter(out), progressbar.OptionUseANSICodes(true),
		progressbar.OptionSetDescription(phase), progressbar.OptionSpinnerType(14),
		progressbar.OptionSetSpinnerChangeInterval(0), progressbar.OptionSetElapsedTime(true))
	defer bar.Clear()
	for pause(ctx, redraw) {
		bar.Add(1)
	}
}

// beat writes a line now and then.
func beat(ctx context.Context, out io.Writer, phase string) {
	began := time.Now()
	for pause(ctx, heartbeat) {
		fmt.Fprintf(out, "%s …  %s\n", phase, text.Clock(time.Since(began)))
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
