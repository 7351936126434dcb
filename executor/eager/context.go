package eager

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/berth-ml/berth/engine/device"
	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/internal/errs"
	"github.com/berth-ml/berth/residency"
	"github.com/berth-ml/berth/residency/ledger"
)

// ContextOptions is how a context is opened.
type ContextOptions struct {
	// Diagnose is called once for each failure, with the call in which it arose;
	// not for calls that depend on that one, nor for canceled ones. It runs on
	// the caller's or on a lane's goroutine and must neither wait for tensors nor
	// execute.
	Diagnose func(*Error)
	// CheckFinite makes every op fail that makes NaN or Inf, for finding the first one.
	CheckFinite bool
	// Places notes where each tensor is made, for the error of Close about those that are
	// still held. It takes under a microsecond and some memory a call.
	Places bool
	// Handler wraps the handler that runs ops on devices; nil leaves it bare. It returns
	// a handler, never nil.
	Handler func(devices Handler) Handler
	// Closed is called once the context is closed; nil for nobody.
	Closed func()
}

// Context owns a lane (a queue and its stream) and a cache of executables for
// each of its devices. Its tensors are those of a tenant of the devices' residency
// manager. It does not own the devices. All methods are safe for
// concurrent use.
type Context struct {
	lanes    []*lane
	tenant   *residency.Tenant
	handler  Handler
	bare     bool // the handler is the context's own
	places   bool // tensors record where they are made
	diagnose func(*Error)
	left     func() // ContextOptions.Closed, or nil

	plans plans // of tapes

	hosted sync.WaitGroup // host functions on goroutines of their own
	slots  chan struct{}  // bounds them

	mu     sync.Mutex
	closed bool
	era    atomic.Pointer[era]
}

// Execute calls an op on the device of its arguments, which it consumes, and
// returns handles of its outputs. It does not wait for the device. If the call
// itself is wrong (shapes, a consumed argument, a canceled context), it returns
// as many copies of one handle as an op can have outputs; its Err is the error, and the
// use of any output passes it on.
func (c *Context) Execute(op graph.Op, args ...Tensor) []Tensor {
	inv := &Invocation{Op: op, Args: args, Loc: Caller(1)}
	c.Run(inv)
	return inv.Results
}

// checkOpened refuses a nil context, and one that New and Join did not make.
func (c *Context) checkOpened() error {
	if c == nil || c.tenant == nil {
		return errs.NotOpened("OpByOp", "Devices.OpByOp")
	}
	return nil
}

// checkOpen also refuses a closed context, and one whose calls are canceled.
func (c *Context) checkOpen() error {
	if err := c.checkOpened(); err != nil {
		return err
	}
	return context.Cause(c.era.Load())
}

// One is Execute that returns the first output and releases the others. A short op that
// nothing delays allocates nothing.
func (c *Context) One(op graph.Op, args ...Tensor) Tensor {
	var out [maxOutputs]Tensor
	return first(c.call(op, args, out[:], 1))
}

// call is Execute, with the results in out where they are there at once. skip is the number
// of callers between the program and the caller of call.
func (c *Context) call(op graph.Op, args, out []Tensor, skip int) []Tensor {
	if _, apart := op.(placed); c != nil && c.bare && !apart && !isNil(op) {
		results, _, err := c.submit(&call{op: op, skip: skip + 1}, args, out)
		if err != nil {
			return poisoned(op, err)
		}
		return results
	}
	inv := &Invocation{Op: op, Args: slices.Clone(args), Loc: Caller(skip + 1)}
	c.Run(inv)
	return inv.Results
}

// first releases all tensors but the first.
func first(list []Tensor) Tensor {
	for _, t := range list[1:] {
		_ = t.Release() // fails only for a consumed handle; these are new
	}
	return list[0]
}

// Run is Execute with all options of a call. It sets inv.Results, and replaces
// inv.Chain unless it is nil.
func (c *Context) Run(inv *Invocation) {
	if inv == nil {
		_ = c.failed("call", Caller(1), fmt.Errorf("%w: the Invocation is nil: pass one", errs.ErrOptions)) // which tells
		return
	}
	inv.context = c
	if err := c.checkOpened(); err != nil {
		inv.Fail(err)
		return
	}
	if isNil(inv.Op) {
		inv.Op = nil
		inv.Fail(fmt.Errorf("%w: the op is nil: pass one, such as ops.MatMul{}", errs.ErrOptions))
		return
	}
	if err := inv.place(); err != nil {
		inv.Fail(err)
		return
	}
	inv.pass(c.handler)
}

// isNil reports whether there is no op to call.
func isNil(op graph.Op) bool {
	switch f := op.(type) {
	case nil:
		return true
	case *Function:
		return f == nil
	case *frozen:
		return isNil(f.Op)
	case placed:
		return isNil(f.Op)
	}
	return false
}

// Ledger counts the bytes that the context's tensors have moved, by device, kind and reason.
func (c *Context) Ledger() *ledger.Ledger {
	if c.checkOpened() != nil {
		return ledger.New(nil, nil)
	}
	return c.tenant.Ledger()
}

// Cancel makes calls that have not begun on their device, and all later ones until Restart,
// fail with ErrCanceled and the cause. The one that runs on each device ends. A second Cancel
// keeps the first cause.
func (c *Context) Cancel(cause error) {
	if c.checkOpened() != nil {
		return
	}
	err := ErrCanceled
	if cause != nil {
		err = fmt.Errorf("%w: %w", ErrCanceled, cause)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.era.Load().cancel(err)
}

// Restart ends cancellation for later calls. Tensors that were computed before
// Cancel stay valid. A closed context stays closed.
func (c *Context) Restart() {
	if c.checkOpened() != nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.closed && c.era.Load().Err() != nil {
		c.era.Store(newEra())
	}
}

// Close waits for all calls, ends the lanes and leaves the residency manager, which frees
// all tensors. It fails if there are handles that were not consumed, and counts their tensors in the
// error, with ContextOptions.Places by the lines that made them; they can still be released.
// A nil or closed context has none.
func (c *Context) Close() error {
	if c.checkOpened() != nil {
		return nil
	}
	c.mu.Lock()
	again := c.closed
	c.closed = true
	c.mu.Unlock()
	if again {
		return nil
	}
	c.hosted.Wait()
	var failed []error
	for _, l := range c.lanes {
		failed = append(failed, l.close())
	}
	c.era.Load().cancel(ErrClosed)
	if c.left != nil {
		defer c.left()
	}
	return errors.Join(append(failed, c.leave(), c.tenant.Close())...)
}

// lane finds a device's lane; "" is the first.
func (c *Context) lane(id device.ID) (*lane, error) {
	for _, l := range c.lanes {
		if id == "" || l.dev.ID() == id {
			return l, nil
		}
	}
	return nil, fmt.Errorf("this context has no device %q: it has %s", id, c.names())
}

// names lists the context's devices.
func (c *Context) names() string {
	var ids []string
	for _, l := range c.lanes {
		ids = append(ids, string(l.dev.ID()))
	}
	return strings.Join(ids, ", ")
}

// failed reports and returns the error of a call that failed with err.
func (c *Context) failed(what string, loc Location, err error) error {
	err = &Error{Op: what, Loc: loc, Err: err}
	c.report(err)
	return err
}

// report tells the diagnostic handler of a failure that arose here.
func (c *Context) report(err error) {
	var e *Error
	if c != nil && c.diagnose != nil && errors.As(err, &e) && !errors.Is(err, ErrCanceled) {
		c.diagnose(e)
	}
}

// New opens a context that has devices to itself. The first is where ops without
// arguments run. The caller closes it before the devices.
func New(devs []device.Device, o ContextOptions) (*Context, error) {
	if len(devs) == 0 {
		return nil, errors.New("an eager context needs at least one device: open one with device.Open")
	}
	t, err := residency.Open(devs, residency.ManagerOptions{Name: "an op-by-op context"}, residency.TenantOptions{})
	if err != nil {
		return nil, err
	}
	return openContext(t, o)
}

// Join opens a context on devices that it shares with other users of a residency manager, as
// a tenant of that name. Its tensors take the memory that the others leave, and make others leave
// that are not needed soon; its own go to the host where memory is short, and come back when
// they are used. It waits like [residency.Manager.Join].
func Join(ctx context.Context, m *residency.Manager, t residency.TenantOptions, o ContextOptions) (*Context, error) {
	if t.Peaks == nil { // it may take all that there is
		for i, d := range m.Devices() {
			t.Peaks = append(t.Peaks, 0)
			if t.Devices == nil || slices.Contains(t.Devices, i) {
				t.Peaks[i] = d.Spec().MemoryBytes
			}
		}
	}
	u, err := m.Join(ctx, t)
	if err != nil {
		return nil, err
	}
	return openContext(u, o)
}

// openContext opens a context of a tenant, which it closes.
func openContext(t *residency.Tenant, o ContextOptions) (*Context, error) {
	c := &Context{diagnose: o.Diagnose, tenant: t, slots: make(chan struct{}, laneSize), bare: o.Handler == nil, places: o.Places}
	c.era.Store(newEra())
	c.handler = &deviceHandler{c}
	if o.Handler != nil {
		if c.handler = o.Handler(c.handler); c.handler == nil {
			return nil, errors.Join(errors.New("the function ContextOptions.Handler returned nil: return the handler that it was given, or one that wraps it"), c.Close())
		}
	}
	devs := t.Devices()
	for _, i := range t.Used() {
		l, err := newLane(c, devs[i], i, o)
		if err != nil {
			return nil, errors.Join(err, c.Close())
		}
		c.lanes = append(c.lanes, l)
	}
	c.left = o.Closed
	return c, nil
}

// newLane opens a lane of a context on a device, by its index in the manager's list, and
// starts the lane's goroutine.
func newLane(c *Context, dev device.Device, index int, o ContextOptions) (*lane, error) {
	l := &lane{
		context: c, dev: dev,
		memory:  memory{tenant: c.tenant, device: index, limit: dev.Spec().MemoryBytes / keptPart, pools: map[string]*pool{}},
		cache:   newCache(),
		compile: compileOptions{short: shortSeconds, checkFinite: o.CheckFinite},
		stopped: make(chan struct{}),
	}
	l.work.L, l.room.L = &l.mu, &l.mu
	l.copies = copies{dev: dev, name: c.tenant.StreamName("eager-copy")}
	if l.open(); l.broken != nil {
		return nil, l.broken
	}
	go l.loop()
	return l, nil
}

// era is the time between two Restarts: the calls made in it are canceled
// together.
type era struct {
	context.Context
	over atomic.Bool // it is canceled; cheaper to ask than Context
	end  context.CancelCauseFunc
}

func newEra() *era {
	ctx, cancel := context.WithCancelCause(context.Background())
	return &era{Context: ctx, end: cancel}
}

// cancel ends the era, the first time.
func (e *era) cancel(cause error) {
	e.end(cause)
	e.over.Store(true)
}

// ended is the cause of the cancellation, nil while there is none. Building and compiling ask it.
func (e *era) ended() error { return context.Cause(e) }

// cause is the error of a call that met err while it waited with the era: the cause of
// the cancellation, if it was canceled.
func (e *era) cause(err error) error {
	if c := context.Cause(e); c != nil {
		return c
	}
	return err
}
