package eager

import (
	"slices"

	"github.com/berth-ml/berth/engine/device"
	"github.com/berth-ml/berth/engine/graph"
)

// Invocation is one call on its way through handlers.
type Invocation struct {
	Op     graph.Op
	Args   []*Tensor // consumed
	Device device.ID // "" for the device of the arguments, or the first
	Loc    Location
	// Chain, if not nil, orders the call behind the one that made it; afterwards
	// it is the chain of this call.
	Chain   *Chain
	Results []*Tensor // set by the handler

	context *Context
}

// Context is the context of the call, for handlers that make calls of their own.
func (inv *Invocation) Context() *Context { return inv.context }

// Fail ends a call that a handler cannot make. The results and the chain carry
// the error, and it is reported to ContextOptions.Diagnose.
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
		inv.Chain = &Chain{t.made}
	}
}

// Handler runs calls. Execute consumes inv.Args and sets inv.Results; it may pass
// the invocation on to another handler. It is called from any goroutine.
type Handler interface {
	Execute(inv *Invocation)
}
