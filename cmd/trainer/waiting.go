package main

import (
	"context"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"github.com/schollz/progressbar/v3"
)

// stoppingKey finds in a context what is said at the first signal.
type stoppingKey struct{}

// What a signal does: what is not saved is left as soon as that can be.
const (
	leaves = "stopping"
	saves  = "stopping once what is under way is finished and saved"
)

// withStopping is a context whose signals say what they do.
func withStopping(ctx context.Context) context.Context {
	text := &atomic.Value{}
	text.Store(leaves)
	return context.WithValue(ctx, stoppingKey{}, text)
}

// atSignal is what is said at the first signal. Commands that save set it once
// there is something to save.
func atSignal(ctx context.Context) *atomic.Value {
	if text, ok := ctx.Value(stoppingKey{}).(*atomic.Value); ok {
		return text
	}
	return &atomic.Value{}
}

// patience is how long a terminal shows nothing.
const patience = time.Second

// waiting shows that something goes on before there is progress to count, such
// as "planning", until the returned function is called or ctx ends. A
// nil out shows nothing.
func waiting(ctx context.Context, out io.Writer, what string) (done func()) {
	if out == nil {
		return func() {}
	}
	ctx, cancel := context.WithCancel(ctx)
	var over sync.WaitGroup
	over.Go(func() {
		if terminal(out) == nil {
			beat(ctx, out, what)
			return
		}
		if !pause(ctx, patience) {
			return
		}
		bar := progressbar.NewOptions(-1, progressbar.OptionSetWriter(out), progressbar.OptionUseANSICodes(true),
			progressbar.OptionSetDescription(what), progressbar.OptionSpinnerType(14), progressbar.OptionSetSpinnerChangeInterval(0), progressbar.OptionSetElapsedTime(true))
		defer bar.Clear()
		for pause(ctx, redraw) {
			bar.Add(1)
		}
	})
	return sync.OnceFunc(func() {
		cancel()
		over.Wait()
	})
}

// beat writes a line now and then.
func beat(ctx context.Context, out io.Writer, what string) {
	began := time.Now()
	for pause(ctx, heartbeat) {
		fmt.Fprintf(out, "%s …  %s\n", what, clockText(time.Since(began)))
	}
}

// pause waits, and tells whether ctx has not ended meanwhile.
func pause(ctx context.Context, d time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(d):
		return true
	}
}
