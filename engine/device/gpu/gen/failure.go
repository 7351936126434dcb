package gen

import (
	"fmt"
	"maps"
	"slices"

	"github.com/berth-ml/berth/engine/device"
	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/engine/ops"
	"github.com/berth-ml/berth/engine/shape"
)

// Finite is the call that fails if output o of a cluster, v, has a number that is not finite.
func Finite(v *graph.Value, o int) []Call {
	w := &writer{node: v.Node}
	w.items(v.Meta.Elems(), []param{site, clusterOut("const f32", "X", o)}, "\tif (!finite_f(X[i])) FAIL;\n")
	for i := range w.calls {
		w.calls[i].Finite = v
	}
	return w.calls
}

// CopyOf is the call of a step without a cluster: it copies its input of so many bytes to its
// output.
func CopyOf(bytes int64) []Call {
	w := &writer{}
	typ, n := "i32", bytes/4
	if bytes%4 != 0 {
		typ, n = "u8", bytes
	}
	from := clusterOut("const "+typ, "X", 0)
	from.arg.Role = In
	w.items(int(n), []param{from, clusterOut(typ, "Z", 0)}, "\tZ[i] = X[i];\n")
	return w.calls
}

// clusterOut is a parameter that is output o of the cluster.
func clusterOut(typ, name string, o int) param {
	return param{c: "GLOBAL " + typ + "* " + name, arg: Arg{Role: Out, Index: o}, ofCluster: true}
}

// Failure is the error of a call that wrote the status word: the one that the cpu kind
// gives. read reads a value of the call's node from the device, as the call left it.
func (c *Call) Failure(read func(v *graph.Value) ([]byte, error)) error {
	if v := c.Finite; v != nil {
		b, err := read(v)
		if err != nil {
			return err
		}
		return &device.NonFiniteError{Node: v.Node, Value: v.Name, Index: firstNonFinite(shape.View[float32](b))}
	}
	f := failures[c.Node.Op.Kind()]
	b, err := read(c.Node.In[f.input])
	if err == nil {
		err = f.find(c.Node, b)
	}
	if err == nil {
		err = fmt.Errorf("BUG: %s failed on inputs that are as they should be", c.Node.Op.Kind())
	}
	return err
}

// failure finds in one of a node's inputs why its kernel failed.
type failure struct {
	input int
	find  func(n *graph.Node, input []byte) error
}

// failures by the kind of op. Each op whose kernel can fail has one.
var failures = map[string]failure{
	"gather":             {1, func(n *graph.Node, b []byte) error { return ops.CheckIDs(shape.View[int32](b), n.In[0].Meta.Shape[0]) }},
	"scatter_add":        {0, func(n *graph.Node, b []byte) error { return ops.CheckIDs(shape.View[int32](b), n.Out[0].Meta.Shape[0]) }},
	"cross_entropy":      {1, badTarget},
	"cross_entropy_grad": {1, badTarget},
	"correct":            {1, badTarget},
	"outcome":            {1, badTarget},
	"rank":               {1, badTarget},
	"tally": {1, func(n *graph.Node, b []byte) error {
		if n.Op.(ops.Tally).Padded {
			return ops.CheckPaddedCounted(shape.View[int32](b), n.In[0].Meta.Elems())
		}
		return ops.CheckCounted(shape.View[int32](b), n.In[0].Meta.Elems())
	}},
	"max_pool2d_grad": {0, func(n *graph.Node, b []byte) error {
		return ops.CheckPooled(shape.View[int32](b), n.Out[0].Meta.Shape[2:].Elems())
	}},
	"cached_attention": {3, func(n *graph.Node, b []byte) error {
		return badExtent(b, n.In[0].Meta.Shape[1], n.In[1].Meta.Shape[1], n.In[1].Meta.Shape[0])
	}},
	"cache_write": {2, func(n *graph.Node, b []byte) error {
		return badExtent(b, n.In[1].Meta.Shape[1], n.In[0].Meta.Shape[1], n.In[0].Meta.Shape[0])
	}},
	"state_write": {2, func(n *graph.Node, b []byte) error {
		return badExtent(b, n.In[1].Meta.Shape[1], anywhere, n.In[0].Meta.Shape[0])
	}},
	"positions": {0, func(n *graph.Node, b []byte) error { return badExtent(b, n.Out[0].Meta.Shape[1], anywhere, anywhere) }},
	"last_row":  {1, func(n *graph.Node, b []byte) error { return badExtent(b, n.In[0].Meta.Shape[1], anywhere, anywhere) }},
	"repetition_penalty": {3, func(n *graph.Node, b []byte) error {
		return badExtent(b, n.In[2].Meta.Shape[1], anywhere, n.In[1].Meta.Shape[0])
	}},
	"seen_write": {2, func(n *graph.Node, b []byte) error {
		return badExtent(b, n.In[1].Meta.Shape[1], anywhere, n.In[0].Meta.Shape[0])
	}},
	"check_finite": {0, func(*graph.Node, []byte) error { return &device.NonFiniteError{} }},
	"learning_rate": {0, func(n *graph.Node, b []byte) error {
		o := n.Op.(ops.LearningRate)
		return fmt.Errorf("step %d is too far beyond the %d steps of the schedule %s: start a run with more epochs instead of resuming this one", shape.View[int32](b)[0], o.Total, o.Schedule)
	}},
}

// Failing lists the ops whose kernels can fail, in alphabetical order.
func Failing() []string { return slices.Sorted(maps.Keys(failures)) }

// FailsFor is the input of a node, of an op that can fail, for which it fails.
func FailsFor(n *graph.Node) int { return failures[n.Op.Kind()].input }

func badTarget(n *graph.Node, b []byte) error {
	if pads(n.Op) {
		return ops.CheckPaddedTargets(shape.View[int32](b), n.In[0].Meta.Shape.Dim(-1))
	}
	return ops.CheckTargets(shape.View[int32](b), n.In[0].Meta.Shape.Dim(-1))
}

// pads reports whether a target of -1 is padding for an op.
func pads(op graph.Op) bool {
	switch o := op.(type) {
	case ops.CrossEntropy:
		return o.Padded
	case ops.CrossEntropyGrad:
		return o.Padded
	case ops.Correct:
		return o.Padded
	case ops.Outcome:
		return o.Padded
	case ops.Rank:
		return o.Padded
	}
	return false
}

func badExtent(b []byte, rows, positions, places int) error {
	extents := shape.View[int32](b)
	for i := range len(extents) / 3 {
		if err := ops.ExtentOf(extents, i).Check(rows, positions, places); err != nil {
			return err
		}
	}
	return nil
}

// firstNonFinite is the index of the first number that is NaN or infinite.
func firstNonFinite(x []float32) int {
	for i, v := range x {
		if v-v != 0 {
			return i
		}
	}
	return -1
}
