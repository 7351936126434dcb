package eager

import (
	"errors"
	"slices"

	"github.com/berth-ml/berth/engine/device"
	"github.com/berth-ml/berth/engine/graph"
)

// placed is an op that runs on a certain device.
type placed struct {
	graph.Op
	on device.ID
}

// OnDevice is an op that runs on a device of the context: arguments that are on another one are copied there
// first, and the results are there. On a [Tape] its gradients are computed, too, and each is on the device of the tensor that
// it is by. In a compiled function it is an error, since a function runs on one device as a whole: OnDevice may be of the
// function.
func OnDevice(op graph.Op, id device.ID) graph.Op { return placed{unplaced(op), id} }

// Expand fails: see [graph.Composite].
func (p placed) Expand(b *graph.Builder, _ []*graph.Value) []*graph.Value {
	b.Fail(errPlaced)
	return nil
}

var errPlaced = errors.New("OnDevice within a compiled function, which runs on one device: call its parts one by one, or the function by OnDevice")

// unplaced is the op itself.
func unplaced(op graph.Op) graph.Op {
	if p, ok := op.(placed); ok {
		return p.Op
	}
	return op
}

// place makes a call of OnDevice one of the op itself, on that device, and has its arguments brought there.
func (inv *Invocation) place() error {
	p, ok := inv.Op.(placed)
	if !ok {
		return nil
	}
	inv.Op, inv.Device = p.Op, p.on
	if _, err := inv.context.lane(p.on); err != nil {
		return err
	}
	inv.Args = slices.Clone(inv.Args)
	for i, x := range inv.Args {
		inv.Args[i] = x.bring(p.on, inv.Loc)
	}
	return nil
}

// bring is x on a device; a copy takes its place where it is on another one.
func (x Tensor) bring(on device.ID, loc Location) Tensor {
	if x.refused() || x.Device() == on {
		return x
	}
	y := x.rec.lane.context.copyTo(x, on, loc)
	_ = x.Release() // fails for a handle that was consumed before, as the copy did
	return y
}
