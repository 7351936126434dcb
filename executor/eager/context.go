package eager

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/berth-ml/berth/engine/device"
	"github.com/berth-ml/berth/engine/graph"
)

// ContextOptions is how a context is opened.
type ContextOptions struct {
	// Diagnose is called once for each failure, with the call in which it arose;
	// not for calls that depend on that one, nor for canceled ones. It runs on
	// the caller's or on a lane's goroutine and must neither wait for tensors nor
	// execute.
	Diagnose func(*Error)
	// Handler wraps the handler that runs ops on devices; nil leaves it bare.
	Handler func(devices Handler) Handler
}

// Context owns a lane (a queue and its stream) and a cache of executables for
// each of its devices. It does not own the devices. All methods are safe for
// concurrent use.
type Context struct {
	lanes    []*lane
	handler  Handler
	diagnose func(*Error)

	live live

	mu  sync.Mutex
	era atomic.Pointer[era]
}

// Execute calls an op on the device of its arguments, which it consumes, and
// returns handles of its outputs. It does not wait for the device. If the call
// itself is wrong (shapes, a consumed argument, a canceled context), it returns
// maxOutputs copies of one handle whose Err is the error: the use of any output
// passes it on.
func (c *Context) Execute(op graph.Op, args ...*Tensor) []*Tensor {
	inv := &Invocation{Op: op, Args: args, Loc: Caller(1)}
	c.Run(inv)
	return inv.Results
}

// One is Execute that returns the first output and releases the others.
func (c *Context) One(op graph.Op, args ...*Tensor) *Tensor {
	inv := &Invocation{Op: op, Args: args, Loc: Caller(1)}
	c.Run(inv)
	for _, t := range inv.Results[1:] {
		_ = t.Release() // fails only for a consumed handle; these are new
	}
	return inv.Results[0]
}

// Run is Execute with all options of a call. It sets inv.Results, and replaces
// inv.Chain unless it is nil.
func (c *Context) Run(inv *Invocation) {
	inv.context = c
	c.handler.Execute(inv)
}

// Cancel makes calls that are not launched yet, and all later ones until Restart,
// fail with ErrCanceled and the cause. Launched calls finish. A second Cancel
// keeps the first cause.
func (c *Context) Cancel(cause error) {
	err := ErrCanceled
	if cause != nil {
		err = fmt.Errorf("%w: %w", ErrCanceled, cause)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.era.Load().cancel(err)
}

// Restart ends cancellation for later calls. Tensors that were computed before
// Cancel stay valid.
func (c *Context) Restart() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.era.Load().Err() != nil {
		c.era.Store(newEra())
	}
}

// Close waits for all calls and ends the lanes. It fails if tensors still have
// memory, and counts them in the error; they can still be released.
func (c *Context) Close() error {
	var errs []error
	for _, l := range c.lanes {
		errs = append(errs, l.close())
	}
	c.era.Load().cancel(ErrClosed)
	if n := c.live.tensors.Load(); n != 0 {
		errs = append(errs, fmt.Errorf("eager context: %d tensors with %d bytes are still held: consume or Release every handle", n, c.live.bytes.Load()))
	}
	return errors.Join(errs...)
}

// lane finds a device's lane; "" is the first.
func (c *Context) lane(id device.ID) (*lane, error) {
	for _, l := range c.lanes {
		if id == "" || l.dev.ID() == id {
			return l, nil
		}
	}
	return nil, fmt.Errorf("no device %q in this context: pass it to New", id)
}

// laneOf finds the lane of a tensor, nil if it belongs to another context.
func (c *Context) laneOf(t *Tensor) *lane {
	for _, l := range c.lanes {
		if t.made.home == &l.home {
			return l
		}
	}
	return nil
}

// report tells the diagnostic handler of a failure that arose here.
func (c *Context) report(err error) {
	var e *Error
	if c.diagnose != nil && errors.As(err, &e) && !errors.Is(err, ErrCanceled) {
		c.diagnose(e)
	}
}
