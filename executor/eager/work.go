package eager

import (
	"errors"
	"fmt"

	"github.com/berth-ml/berth/engine/device"
	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/engine/shape"
)

// work is one call in a lane: an op to launch, or a copy or host function to do.
// The handles of its results point to its outcome.
type work struct {
	outcome
	era     *era
	what    string // the op's kind or "to host", for errors
	loc     Location
	op      graph.Op
	entry   *entry
	args    []*Tensor // with one use each; nil once launched
	after   *Chain
	results []*Tensor
	do      func() error      // instead of a launch: called with nothing in flight
	staged  device.HostBuffer // the source of do's copy; freed with the arguments' uses
	event   device.Event

	// Room for the usual call, so that it is one allocation.
	argRoom    [4]*Tensor
	resultRoom [2]*Tensor
	first      Tensor
}

// expect makes the handles of the results, each with one reference for the
// caller and a use until it is launched.
func (w *work) expect(outs []shape.Meta) {
	w.results = w.resultRoom[:0]
	for k, m := range outs {
		t := &w.first
		if k > 0 {
			t = new(Tensor)
		}
		t.made, t.meta = &w.outcome, m
		t.count.Store(oneRef + oneUse)
		w.results = append(w.results, t)
	}
}

// unuse ends the use of the arguments. A copy from the host has ended by now.
func (w *work) unuse() {
	for _, a := range w.args {
		a.unuse()
	}
	if w.staged != nil {
		if err := w.staged.Free(); err != nil && !errors.Is(err, device.ErrDeleted) {
			panic(fmt.Sprintf("BUG: freeing a host buffer: %v", err))
		}
		w.staged = nil
	}
	w.args = nil
	w.argRoom = [len(w.argRoom)]*Tensor{}
}

// follows reports whether the call depends on p directly.
func (w *work) follows(p *work) bool {
	if w.after != nil && w.after.made == &p.outcome {
		return true
	}
	for _, a := range w.args {
		if a.made == &p.outcome {
			return true
		}
	}
	return false
}
