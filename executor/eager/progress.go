package eager

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
)

// progress counts the calls of a lane that have ended. They end in order.
type progress struct {
	ended atomic.Uint64 // number of the last call that has ended; written under mu

	mu      sync.Mutex
	waiters []waiter
}

// waiter is a goroutine in await.
type waiter struct {
	seq  uint64
	wake chan struct{}
}

// done reports whether call seq has ended.
func (p *progress) done(seq uint64) bool { return p.ended.Load() >= seq }

// await blocks until call seq has ended, or returns ctx's error.
func (p *progress) await(ctx context.Context, seq uint64) error {
	p.mu.Lock()
	if p.done(seq) {
		p.mu.Unlock()
		return nil
	}
	w := waiter{seq, make(chan struct{})}
	p.waiters = append(p.waiters, w)
	p.mu.Unlock()
	select {
	case <-w.wake:
		return nil
	case <-ctx.Done():
		p.withdraw(w)
		return ctx.Err()
	}
}

// withdraw takes a waiter off the list, if its call has not ended.
func (p *progress) withdraw(w waiter) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.waiters = slices.DeleteFunc(p.waiters, func(o waiter) bool { return o == w })
}

// end makes call seq count as ended.
func (p *progress) end(seq uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.ended.Store(seq)
	kept := p.waiters[:0]
	for _, w := range p.waiters {
		if w.seq > seq {
			kept = append(kept, w)
		} else {
			close(w.wake)
		}
	}
	clear(p.waiters[len(kept):])
	p.waiters = kept
}
