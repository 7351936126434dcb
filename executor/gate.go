package executor

import (
	"context"
	"errors"
	"fmt"
	"sync"
)

// Gate has a model's work stand still between two steps or two batches while somebody asks for that. Its
// maker owns it; it outlives the runtimes that follow one another on it. Its methods are safe for
// concurrent use. Make it with NewGate.
type Gate struct {
	mu      sync.Mutex
	closed  bool            // Suspend was called, and Continue was not
	asked   context.Context // ends with Suspend
	ask     context.CancelFunc
	opens   chan struct{} // closed by Continue; nil unless closed is set
	works   bool          // a goroutine does the model's work
	stands  bool          // that goroutine stands still at the gate
	idle    func()        // has work stand still that no goroutine does; nil: there is none
	rested  bool          // idle was called, and no goroutine has worked since
	changed chan struct{} // closed, and made anew, with each change of the fields above
}

// NewGate makes an open gate.
func NewGate() *Gate {
	g := &Gate{changed: make(chan struct{})}
	g.asked, g.ask = context.WithCancel(context.Background())
	return g
}

// ErrSuspended: the time or the context of work ended while it stood still.
var ErrSuspended = errors.New("it stood still")

// errClosedAgain is the cause that ends waiting for memory when Suspend is called meanwhile.
var errClosedAgain = errors.New("suspended again")

// tell wakes all who wait for a change.
func (g *Gate) tell() {
	close(g.changed)
	g.changed = make(chan struct{})
}

// Suspend closes the gate, and returns once the work stands still, or none is under way. If ctx ends
// before, the gate stays closed. Continue ends the waiting, too.
func (g *Gate) Suspend(ctx context.Context) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.closed {
		g.closed, g.opens = true, make(chan struct{})
		g.ask()
		g.tell()
	}
	for g.closed && !g.still() {
		if !g.works { // the work is between two calls: it stands still from here
			g.works = true
			g.unlocked(g.idle)
			g.works, g.rested = false, true
			g.tell()
			continue
		}
		if err := g.wait(ctx); err != nil {
			return fmt.Errorf("%w before the work stood still: it still will, unless it is continued", err)
		}
	}
	return nil
}

// still reports whether nothing works, or holds memory that others could have.
func (g *Gate) still() bool { return g.stands || !g.works && (g.idle == nil || g.rested) }

// Continue opens the gate. It does not wait.
func (g *Gate) Continue() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.closed {
		return
	}
	g.closed = false
	close(g.opens)
	g.asked, g.ask = context.WithCancel(context.Background())
	g.tell()
}

// Enter begins work, once no other goroutine does any; it fails with ctx's cause if that ends before. The
// work stands still where it calls Pass, or Runtime.Rest.
func (g *Gate) Enter(ctx context.Context) (leave func(), err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for g.works {
		if err := g.wait(ctx); err != nil {
			return nil, err
		}
	}
	g.works = true
	return g.leave, nil
}

// leave ends what Enter began.
func (g *Gate) leave() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.works, g.stands, g.rested = false, false, g.stands
	g.tell()
}

// SetIdle says how work stands still while no goroutine does any: f settles it and gives its memory up. Nil:
// between calls there is no work. Call it within Enter.
func (g *Gate) SetIdle(f func()) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.idle, g.rested = f, false
	g.tell()
}

// Closed reports whether somebody wants the work to stand still.
func (g *Gate) Closed() bool {
	if g == nil {
		return false
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.closed
}

// Passage is how work goes through a gate.
type Passage struct {
	// Halt ends what must not go on while the work is suspended. Suspend returns after it. Nil: nothing does.
	Halt func() error
	// Stand stands still until opens is closed.
	Stand func(opens <-chan struct{}) error
	// Take gets the memory to work with. Its context ends if somebody suspends the work meanwhile: all begins anew then.
	Take func(context.Context) error
}

// Pass goes through the gate. While that is open, only Take is called, as without a gate. An error of any ends it.
func (g *Gate) Pass(ctx context.Context, p Passage) error {
	if g == nil {
		return p.Take(ctx)
	}
	for {
		if opens := g.shut(); opens != nil {
			if p.Halt != nil {
				if err := p.Halt(); err != nil {
					return err
				}
			}
			g.stand()
			if err := p.Stand(opens); err != nil {
				return err
			}
		}
		if err := g.through(ctx, p.Take); !errors.Is(err, errClosedAgain) {
			return err
		}
	}
}

// shut is closed once the gate opens; nil: it is open.
func (g *Gate) shut() (opens <-chan struct{}) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.closed {
		return nil
	}
	return g.opens
}

// stand tells that the work stands still.
func (g *Gate) stand() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.stands = true
	g.tell()
}

// through calls take within a context that ends when somebody suspends the work.
func (g *Gate) through(ctx context.Context, take func(context.Context) error) error {
	g.mu.Lock()
	if g.closed {
		g.mu.Unlock()
		return errClosedAgain
	}
	g.stands = false
	asked := g.asked
	g.mu.Unlock()
	taking, giveUp := context.WithCancelCause(ctx)
	defer giveUp(nil)
	defer context.AfterFunc(asked, func() { giveUp(errClosedAgain) })()
	return take(taking)
}

// wait waits for a change, without the lock. It fails with ctx's cause if that ends before.
func (g *Gate) wait(ctx context.Context) (err error) {
	changed := g.changed
	g.unlocked(func() {
		select {
		case <-changed:
		case <-ctx.Done():
			err = context.Cause(ctx)
		}
	})
	return err
}

// unlocked calls f without the lock.
func (g *Gate) unlocked(f func()) {
	g.mu.Unlock()
	defer g.mu.Lock()
	f()
}
