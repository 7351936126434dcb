package eager

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"

	"github.com/berth-ml/berth/engine/device"
	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/engine/shape"
	"github.com/berth-ml/berth/internal/panics"
)

// Invocation is one call on its way through handlers.
type Invocation struct {
	Op     graph.Op
	Args   []Tensor  // consumed
	Device device.ID // "" for the device of the arguments, or the first
	Loc    Location
	// Chain, if not nil, orders the call behind the one that made it; afterwards
	// it is the chain of this call.
	Chain   *Chain
	Results []Tensor // set by the handler

	context *Context
	needs   int // results that the caller reads; at least one
}

// Context is the context of the call, for handlers that make calls of their own.
func (inv *Invocation) Context() *Context {
	if inv == nil {
		return nil
	}
	return inv.context
}

// Fail ends a call that a handler cannot make: it consumes the arguments, or gives back the
// results if there are some. The results and the chain then carry the error, and it is
// reported to ContextOptions.Diagnose.
func (inv *Invocation) Fail(err error) {
	if inv == nil {
		return
	}
	inv.giveBack()
	failed := &Error{Op: "call", Loc: inv.Loc, Err: err}
	if !isNil(inv.Op) {
		failed.Op = kindOf(inv.Op)
	}
	inv.context.report(failed)
	inv.poison(failed)
}

// giveBack releases the results, or the arguments of a call that has none yet.
func (inv *Invocation) giveBack() {
	list := inv.Results
	if len(list) == 0 {
		list = inv.Args
	}
	for _, x := range list {
		if !x.IsZero() {
			_ = x.Release() // fails for a handle that was consumed before
		}
	}
}

// poison makes every result a handle of the failed call.
func (inv *Invocation) poison(err error) {
	inv.Results = poisoned(inv.Op, err)
	if inv.Chain != nil {
		inv.Chain = &Chain{inv.Results[0].rec.made}
	}
}

// poisoned is as many handles of a failed call as its op can have results.
func poisoned(op graph.Op, err error) []Tensor {
	n := maxOutputs
	if _, made := op.(graph.Composite); made {
		n = graph.MaxResults
	}
	return slices.Repeat([]Tensor{failure(err)}, n)
}

// Handler runs calls. Execute consumes inv.Args and sets inv.Results; it may pass
// the invocation on to another handler. It is called from any goroutine. If it panics, or
// sets no results, the call fails with an error that names the handler.
type Handler interface {
	Execute(inv *Invocation)
}

// pass gives the call to a handler. If that panics or sets too few results, the call fails
// with an error that names it.
func (inv *Invocation) pass(h Handler) {
	inv.Results = inv.Results[:0]
	if _, own := h.(*deviceHandler); own {
		h.Execute(inv)
		return
	}
	defer func() {
		if r := recover(); r != nil {
			inv.Fail(fmt.Errorf("the handler %T panicked: %s", h, panics.Text(r)))
		}
	}()
	h.Execute(inv)
	if n, need := len(inv.Results), max(1, inv.needs); n < need {
		inv.Fail(fmt.Errorf("the handler %T set %d results, expected at least %d: set Invocation.Results, call the next handler, or call Fail", h, n, need))
	}
}

// logging writes a line per call, and with values one per result, too.
type logging struct {
	next   Handler
	values bool
	mu     sync.Mutex
	w      io.Writer
}

// Logging is a handler that passes calls on and writes a line for each to w:
// where it was made, the op, and the metadata that goes in and comes out.
func Logging(next Handler, w io.Writer) Handler { return &logging{next: next, w: w} }

// LoggingValues is Logging that waits for each call, and writes a further line for each result:
// its first and last elements, the least, the largest and the mean, and how many are NaN or
// infinite. The ledger counts the bytes that it reads as debug. A function of [Context.Call] must
// not call through it where it must not wait for the result.
func LoggingValues(next Handler, w io.Writer) Handler {
	return &logging{next: next, values: true, w: w}
}

// Execute passes the call on, then writes.
func (l *logging) Execute(inv *Invocation) {
	args := list(inv.Args) // whose records may be those of other tensors once they are consumed
	inv.pass(l.next)
	text := fmt.Sprintf("%v: %s(%s) -> ", inv.Loc.Pos(), opText(inv.Op), args)
	if t := inv.Results[0]; t.refused() {
		text += fmt.Sprintf("error: %s\n", reason(t.Err(), inv.Loc))
	} else {
		text += fmt.Sprintf("%s on %s\n", list(inv.Results), t.Device())
		for i := 0; l.values && i < len(inv.Results); i++ {
			text += "  " + inv.Results[i].summary(inv) + "\n"
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	_, _ = io.WriteString(l.w, text) // a log that cannot be written stops no work
}

// reason is an error in a line that begins with a place: without it where the error is of this place, too.
func reason(err error, at Location) string {
	if e, ok := err.(*Error); ok && e.Loc == at {
		return e.cause()
	}
	return err.Error()
}

// summary waits for the contents of a result, and is their summary, or what they failed with.
func (x Tensor) summary(inv *Invocation) string {
	if x.refused() || !x.use() {
		return fmt.Sprint("error: ", x.Err())
	}
	defer x.rec.unuse()
	text := ""
	err := x.rec.maker().wait(context.Background()) // which Cancel ends
	if err == nil {
		t := x.rec.tensor
		err = inv.context.tenant.Peek(context.Background(), t, func(b []byte) error {
			text = fmt.Sprintf("%v: %s", t.Meta(), shape.Summary(t.Meta(), b))
			return nil
		})
	}
	if err != nil {
		return "error: " + reason(err, inv.Loc)
	}
	return text
}

// opText is the text of an op. Of a function it is the name, since its attributes are the
// program's code; of a frozen op, that of the op itself.
func opText(op graph.Op) string {
	switch op := op.(type) {
	case *Function:
		return op.name
	case *frozen:
		return opText(op.Op)
	}
	return graph.OpString(op)
}

func list(ts []Tensor) string {
	s := make([]string, len(ts))
	for i, t := range ts {
		if t.IsZero() {
			s[i] = "nil"
		} else {
			s[i] = t.Meta().String()
		}
	}
	return strings.Join(s, ", ")
}
