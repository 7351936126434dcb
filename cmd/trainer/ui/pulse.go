package ui

import (
	"context"
	"fmt"
	"runtime/debug"
	"sync"
	"time"

	"github.com/berth-ml/berth/cmd/trainer/internal/bounds"
)

// pulse looks at something once a second while somebody watches, and when somebody asks.
type pulse struct {
	life    context.Context                    // of the server
	look    func(context.Context) (whole bool) // which its context may cut short
	log     func(string)                       // as [Options] has it
	looks   sync.WaitGroup
	looking bounds.Places // one look at a time

	mu       sync.Mutex
	at       time.Time // when the newest look ended that was whole; zero: none was
	watchers int
	on       bool
	ended    bool // it beats no more
}

func newPulse(life context.Context, look func(context.Context) bool) *pulse {
	return &pulse{life: life, look: look, log: func(string) {}, looking: make(bounds.Places, 1)}
}

// fresh looks, unless the last look is younger than a second. known is false where ctx has ended the first look.
func (p *pulse) fresh(ctx context.Context) (known bool) {
	p.after(ctx, lookEvery)
	p.mu.Lock()
	defer p.mu.Unlock()
	return !p.at.IsZero()
}

// after looks, unless the last look is younger than so long.
func (p *pulse) after(ctx context.Context, age time.Duration) {
	if p.age() < age {
		return
	}
	select {
	case p.looking <- struct{}{}:
		defer p.looking.Give()
	case <-ctx.Done():
		return
	}
	if p.age() < lookEvery/2 || !p.look(ctx) { // somebody else has looked, while this look waited
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.at = time.Now()
}

func (p *pulse) age() time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	return time.Since(p.at)
}

// watch makes it beat until end is called.
func (p *pulse) watch() (end func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.watchers++; !p.on && !p.ended {
		p.on = true
		p.looks.Go(p.beat)
	}
	return func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.watchers--
	}
}

// beat looks while somebody watches.
func (p *pulse) beat() {
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	for {
		select {
		case <-p.life.Done():
			return
		case <-tick.C:
		}
		if p.over() {
			return
		}
		p.once()
	}
}

// once looks. A mistake in it ends neither the beating nor a training in the same process.
func (p *pulse) once() {
	defer func() {
		if cause := recover(); cause != nil {
			p.log(fmt.Sprintf("BUG: a look failed: %v\n%s", cause, debug.Stack()))
		}
	}()
	p.after(p.life, 0)
}

// over ends the beating if nobody watches.
func (p *pulse) over() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.on = p.watchers > 0
	return !p.on
}

// wait waits for the look that is under way, once the server's life has ended.
func (p *pulse) wait() {
	p.mu.Lock()
	p.ended = true
	p.mu.Unlock()
	p.looks.Wait()
}
