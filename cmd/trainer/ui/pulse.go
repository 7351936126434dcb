package ui

import (
	"context"
	"fmt"
	"runtime/debug"
	"sync"
	"time"
)

// pulse calls a function once a second while somebody watches.
type pulse struct {
	life  context.Context // of the server
	look  func(context.Context)
	log   func(string) // as [Options] has it
	looks sync.WaitGroup

	mu       sync.Mutex
	watchers int
	on       bool
	ended    bool // it beats no more
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
	p.look(p.life)
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
