package crew

import (
	"context"
	"sync"
	"time"

	"github.com/berth-ml/berth/executor/ranks"
)

// Vigil notices where a rank is silent while all train: rank 0 hears of each other one, and they of it. A process that hangs
// or was stopped sends no sign of life, whatever the others wait for.
type Vigil struct {
	crew   *Crew
	cancel context.CancelFunc
	over   chan struct{} // closed by End
	all    sync.WaitGroup
}

// beat is the time between signs of life.
const beat = time.Second

// ExitLost is the exit code after a rank was given up: starting again goes on.
const ExitLost = 75

// Watch begins a vigil. Where a rank is silent for too long, Options.Lost is told, and all ranks end. The caller calls End
// or Stop.
func (c *Crew) Watch() *Vigil {
	ctx, cancel := context.WithCancel(context.Background())
	v := &Vigil{crew: c, cancel: cancel, over: make(chan struct{})}
	for i := range c.Size() {
		if i != c.Rank() && (c.Rank() == 0 || i == 0) {
			v.all.Go(func() { v.send(ctx, i) })
			v.all.Go(func() { v.hear(ctx, i) })
		}
	}
	return v
}

// send sends signs of life to a rank, and in the end that it was the last.
func (v *Vigil) send(ctx context.Context, to int) {
	t := time.NewTicker(beat)
	defer t.Stop()
	for {
		var b [1]byte
		select {
		case <-t.C:
		case <-v.over:
			b[0] = 1
		case <-ctx.Done():
			return
		}
		if v.crew.transport.Send(to, ranks.TagBeat, b[:]).Wait(ctx) != nil || b[0] == 1 { // hear tells of a failure, if it is one
			return
		}
	}
}

// hear waits for signs of life of a rank.
func (v *Vigil) hear(ctx context.Context, from int) {
	for {
		var b [1]byte
		err := v.crew.await(ctx, from, "a sign of life", v.crew.transport.Recv(from, ranks.TagBeat, b[:]))
		if isSilent(err) {
			v.crew.lost(err)
		}
		if err != nil || b[0] == 1 {
			return
		}
	}
}

// End ends a vigil. All ranks call it.
func (v *Vigil) End() {
	if v != nil {
		close(v.over)
		v.all.Wait()
		v.cancel()
	}
}

// Stop ends a vigil of this rank, after a failure. A nil Vigil has ended.
func (v *Vigil) Stop() {
	if v != nil {
		v.cancel()
		v.all.Wait()
	}
}
