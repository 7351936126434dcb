package cpu

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/berth-ml/berth/engine/device/cpu/kernels/work"
	"github.com/berth-ml/berth/internal/panics"
)

// A thread without work first spins, because the next loop mostly comes within
// microseconds; then it yields to other goroutines and processes; then it sleeps,
// because waking costs less than burning a core.
const (
	spinTime   = 20 * time.Microsecond
	spinPauses = 24 // pauses between two readings of the clock
	yields     = 16
)

// pool runs parallel loops on the calling goroutine and threads-1 workers,
// which live until close. One loop runs at a time: the device's launch lock
// sees to that.
type pool struct {
	threads int
	lanes   []lane // of the caller, and of each worker

	// The loop that runs. task and chunks are written before state and read only by threads
	// that have claimed a chunk, so they cannot change meanwhile.
	task   work.Task
	chunks uint64

	_ [64]byte // fields that threads write are on cache lines of their own
	// state is the interval of unclaimed chunks: its first in the low half, its end in the
	// high half. A claim is a compare-and-swap. One by a worker that is late by a loop fails,
	// or claims a chunk of the loop that runs, since task and chunks are read after it.
	state atomic.Uint64
	_     [56]byte
	done  atomic.Uint64 // chunks that have ended
	_     [56]byte

	asleep  atomic.Int32  // workers that sleep, or are about to
	wake    chan struct{} // a token wakes one
	waiting atomic.Bool   // the caller sleeps, or is about to
	ended   chan struct{} // wakes it
	closing atomic.Bool
	stopped sync.WaitGroup

	mu       sync.Mutex
	panicked *panics.Passed // the first panic of a worker's chunk
}

// newPool starts threads-1 workers.
func newPool(threads int) *pool {
	p := &pool{threads: threads, lanes: make([]lane, threads), wake: make(chan struct{}, threads), ended: make(chan struct{}, 1)}
	for i := range p.lanes {
		p.lanes[i].leave()
	}
	for i := range threads - 1 {
		p.stopped.Go(func() { p.work(&p.lanes[1+i]) })
	}
	return p
}

// close ends the workers and waits for them.
func (p *pool) close() {
	p.closing.Store(true)
	close(p.wake)
	p.stopped.Wait()
}

// Threads is the number of chunks that run at the same time.
func (p *pool) Threads() int { return p.threads }

// Do runs every chunk and returns when all are done. A panic in a chunk
// becomes the caller's, after the others have ended.
func (p *pool) Do(chunks int, t work.Task) {
	if p.threads == 1 || chunks <= 1 {
		for i := range chunks {
			p.lanes[0].enter()
			t.Chunk(i)
		}
		p.lanes[0].leave()
		return
	}
	p.task, p.chunks = t, uint64(chunks)
	p.done.Store(0)
	p.state.Store(uint64(chunks) << 32)
	for range min(int(p.asleep.Load()), chunks-1) {
		select {
		case p.wake <- struct{}{}:
		default: // enough tokens for all
		}
	}
	for p.claim(&p.lanes[0], first) {
	}
	p.wait(uint64(chunks))
	p.task = nil
	if p.panicked != nil {
		v := p.panicked
		p.panicked = nil
		panic(v)
	}
}

// An end is the side of a loop from which a thread claims chunks. The caller claims from the
// first and workers from the last: of two threads, each then has mostly the same chunks step
// by step, and finds their data in its own cache.
type end bool

const (
	first end = false
	last  end = true
)

// unclaimed is the interval of chunks that no thread has claimed.
func (p *pool) unclaimed() (s, from, to uint64) {
	s = p.state.Load()
	return s, s & (1<<32 - 1), s >> 32
}

// claim runs one chunk of the current loop, if one is left.
func (p *pool) claim(l *lane, at end) bool {
	for {
		s, from, to := p.unclaimed()
		if from == to {
			return false
		}
		i, next := from, s+1
		if at == last {
			i, next = to-1, s-1<<32
		}
		if p.state.CompareAndSwap(s, next) {
			l.enter()
			p.run(int(i))
			l.leave()
			return true
		}
	}
}

// run runs a claimed chunk and counts it, also when it panics.
func (p *pool) run(i int) {
	chunks := p.chunks
	defer func() {
		if v := recover(); v != nil {
			p.mu.Lock()
			if p.panicked == nil {
				p.panicked = panics.Pass(v)
			}
			p.mu.Unlock()
		}
		// After the last chunk is counted the caller may start the next loop.
		if p.done.Add(1) == chunks && p.waiting.Load() && p.waiting.Swap(false) {
			p.ended <- struct{}{}
		}
	}()
	p.task.Chunk(i)
}

// wait returns when all chunks have ended.
func (p *pool) wait(chunks uint64) {
	finished := func() bool { return p.done.Load() == chunks }
	if patient(finished) {
		return
	}
	for !finished() {
		p.waiting.Store(true)
		if finished() && p.waiting.Swap(false) {
			return // nobody will wake us
		}
		<-p.ended // perhaps a late signal of the loop before: look again
	}
}

// work runs chunks until the pool is closed.
func (p *pool) work(l *lane) {
	due := func() bool {
		_, from, to := p.unclaimed()
		return from != to || p.closing.Load()
	}
	for !p.closing.Load() {
		if p.claim(l, last) || patient(due) {
			continue
		}
		p.asleep.Add(1)
		if !due() {
			<-p.wake
		}
		p.asleep.Add(-1)
	}
}

// patient waits a little for ready: spinning, then yielding. It reports whether ready
// came.
func patient(ready func() bool) bool {
	for start := time.Now(); time.Since(start) < spinTime; {
		for range spinPauses {
			if ready() {
				return true
			}
			pause()
		}
	}
	for range yields {
		if ready() {
			return true
		}
		yield()
	}
	return ready()
}
