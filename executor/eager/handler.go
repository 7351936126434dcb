package eager

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"

	"github.com/berth-ml/berth/engine/device"
	"github.com/berth-ml/berth/engine/graph"
)

// maxOutputs is the most outputs that any op has.
const maxOutputs = 8

// Invocation is one call on its way through handlers.
type Invocation struct {
	Op     graph.Op
	Args   []*Tensor // consumed
	Device device.ID // "" for the device of the arguments, or the first
	Loc    Location
	// Chain, if not nil, orders the call behind what made it; afterwards it is
	// the chain of this call.
	Chain   *Chain
	Results []*Tensor // set by the handler

	context *Context
}

// Context is where the call was made, for handlers that make calls of their
// own.
func (inv *Invocation) Context() *Context { return inv.context }

// Fail is what a handler does with a call that it cannot make: the results
// and the chain carry the error, and the diagnostic handler is told.
func (inv *Invocation) Fail(err error) {
	err = &Error{Op: inv.Op.Kind(), Loc: inv.Loc, Err: err}
	inv.context.report(err)
	inv.poison(err)
}

// poison makes every result a handle of the failed call.
func (inv *Invocation) poison(err error) {
	t := failure(err)
	inv.Results = slices.Repeat([]*Tensor{t}, maxOutputs)
	if inv.Chain != nil {
		inv.Chain = &Chain{t.work}
	}
}

// Handler makes calls. Execute consumes inv.Args and sets inv.Results; it may
// pass the invocation on to another handler. It is called from any goroutine.
type Handler interface {
	Execute(inv *Invocation)
}

// deviceHandler makes calls on devices.
type deviceHandler struct{ context *Context }

// Execute checks the call and queues it.
func (h *deviceHandler) Execute(inv *Invocation) {
	c := h.context
	w := &work{op: inv.Op, what: inv.Op.Kind(), loc: inv.Loc, after: inv.Chain}
	if err := c.begin(w, inv.Device, inv.Args, true); err != nil {
		inv.poison(err)
		return
	}
	e, err := w.lane.lookup(w)
	if err == nil {
		w.entry = e
		w.expect(e.outs)
		err = w.lane.queue(w)
	}
	if err != nil {
		inv.poison(c.abandon(w, err))
		return
	}
	inv.Results = w.results
	if inv.Chain != nil {
		inv.Chain = &Chain{w}
	}
}

// logging writes a line per call.
type logging struct {
	next Handler
	mu   sync.Mutex
	w    io.Writer
}

// Logging is a handler that passes calls on and writes a line for each to w:
// where it was made, the op, and the metadata that goes in and comes out.
func Logging(next Handler, w io.Writer) Handler { return &logging{next: next, w: w} }

// Execute passes the call on, then writes.
func (l *logging) Execute(inv *Invocation) {
	l.next.Execute(inv)
	line := fmt.Sprintf("%v: %s(%s) -> ", inv.Loc.Pos(), graph.OpString(inv.Op), list(inv.Args))
	if t := inv.Results[0]; t.failed() {
		line += fmt.Sprintf("error: %v\n", t.Err())
	} else {
		line += fmt.Sprintf("%s on %s\n", list(inv.Results), t.Device())
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	_, _ = io.WriteString(l.w, line) // a log that cannot be written stops no work
}

func list(ts []*Tensor) string {
	s := make([]string, len(ts))
	for i, t := range ts {
		if t == nil {
			s[i] = "nil"
		} else {
			s[i] = t.meta.String()
		}
	}
	return strings.Join(s, ", ")
}
