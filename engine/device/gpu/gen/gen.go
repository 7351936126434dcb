package gen

import (
	"errors"
	"fmt"
	"math"

	"github.com/berth-ml/berth/engine/graph"
)

// ErrUnsupported is the cause of errors about an op that no template covers.
var ErrUnsupported = errors.New("no kernel for a GPU")

// unsupported names an op that no template covers.
func unsupported(op graph.Op) error {
	if graph.BringsKernel(op) {
		return fmt.Errorf("%w: the op %s is Go code: run it on a cpu device", ErrUnsupported, op.Kind())
	}
	return fmt.Errorf("%w: %s: run it on a cpu device", ErrUnsupported, op.Kind())
}

// Role says whose memory an argument is.
type Role uint8

// The roles.
const (
	In      Role = iota // input Index of the cluster
	Out                 // output Index of the cluster
	Scratch             // the cluster's scratch, Value bytes from its start
	When                // number of guard Index of the cluster
	Number              // no memory: Value itself
	Site                // no memory: the number of the step in its program, at least 1
	Table               // memory of its own, which the driver fills with Floats once: its handle
)

// Arg is an argument of a kernel: 64 bits, an offset in bytes, a number or a handle.
type Arg struct {
	Role   Role
	Index  int
	Value  int64      // bytes from the start of the memory; of a Number, the number
	Floats *[]float32 // of a Table
}

// Call is one run of a kernel. Before its own arguments, a kernel has two: the
// device's memory, and the status word. No kernel writes anything once that is not 0.
type Call struct {
	Node   *graph.Node // the node whose failure the kernel tells
	Name   string      // unique for the text
	Source string
	Args   []Arg
	Groups int // work groups, whose lanes work together
	Group  int // lanes of a group; 0: any number
	Items  int // elements, one for each lane; 0 where there are Groups
	// Copy is set if the kernel only copies the memory of its first argument to that of
	// its second. It is not needed where both are the same.
	Copy bool
	// Finite is the value that the kernel checks for NaN and infinity; nil of the kernels of
	// ops.
	Finite *graph.Value
}

// GroupLanes is the size of work groups that suits most devices. Results are the same
// for each size.
const GroupLanes = 64

// Lanes is the number of work items of a call, and of a group. wanted is the size of
// groups where any will do.
func (c *Call) Lanes(wanted int) (lanes, group int) {
	if group = wanted; c.Group > 0 {
		group = c.Group
	}
	if c.Groups > 0 {
		return c.Groups * group, group
	}
	return up(c.Items, group), group
}

// up is the least multiple of to that is at least n.
func up(n, to int) int { return (n + to - 1) / to * to }

// float is a number as C writes it, exact.
func float(v float64) string {
	switch x := float32(v); {
	case x != x:
		return "NAN_F"
	case x > math.MaxFloat32:
		return "INF_F"
	case x < -math.MaxFloat32:
		return "(-INF_F)"
	default:
		return fmt.Sprintf("(%xf)", x)
	}
}
