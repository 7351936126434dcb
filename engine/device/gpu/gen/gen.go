package gen

import (
	"errors"
	"fmt"
	"hash/fnv"
	"maps"
	"slices"
	"strings"

	"github.com/berth-ml/berth/engine/graph"
)

// ErrUnsupported is the cause of errors about a node that no template covers.
var ErrUnsupported = errors.New("no kernel for a GPU")

// Role says whose memory an argument is.
type Role uint8

// The roles.
const (
	In      Role = iota // input Index of the node
	Out                 // output Index of the node
	Scratch             // the node's scratch, Value bytes from its start
	Number              // no memory: Value itself
)

// Arg is an argument of a kernel: 64 bits, an offset in bytes or a number.
type Arg struct {
	Role  Role
	Index int
	Value int64
}

// Call is one run of a kernel. Before its own arguments, a kernel has two: the
// device's memory, and the status word, which stops all kernels once it is not 0.
type Call struct {
	Name   string // unique for the text
	Source string
	Args   []Arg
	Lanes  int // work items; a multiple of Group
	Group  int // work items of a group
}

// GroupLanes is the size of work groups.
const GroupLanes = 64

// Node writes the kernels of one node. scratch is the bytes that they need.
func Node(n *graph.Node) (calls []Call, scratch int64, err error) {
	t, ok := templates[n.Op.Kind()]
	if !ok {
		return nil, 0, fmt.Errorf("%w: %s", ErrUnsupported, n.Op.Kind())
	}
	w := &writer{node: n}
	if err := t(w, n.Op); err != nil {
		return nil, 0, err
	}
	return w.calls, w.scratch, nil
}

// template writes the kernels of an op.
type template func(w *writer, op graph.Op) error

// of makes a template of a function that takes one type of op and cannot fail.
func of[T graph.Op](f func(w *writer, o T)) template {
	return func(w *writer, op graph.Op) error {
		f(w, op.(T))
		return nil
	}
}

// writer collects the kernels of a node.
type writer struct {
	node    *graph.Node
	calls   []Call
	scratch int64
}

// elems is the number of elements of input i.
func (w *writer) elems(i int) int { return w.node.In[i].Meta.Elems() }

// outElems is the number of elements of output i.
func (w *writer) outElems(i int) int { return w.node.Out[i].Meta.Elems() }

// param is a parameter of a kernel: its declaration, and the argument for it.
type param struct {
	c   string // "const f32* x", or "i64 n"
	arg Arg
}

func in(i int, name string) param { return param{"GLOBAL const f32* " + name, Arg{In, i, 0}} }
func inInts(i int, name string) param {
	return param{"GLOBAL const i32* " + name, Arg{In, i, 0}}
}
func out(i int, name string) param     { return param{"GLOBAL f32* " + name, Arg{Out, i, 0}} }
func outInts(i int, name string) param { return param{"GLOBAL i32* " + name, Arg{Out, i, 0}} }
func number(name string, v int) param  { return param{"i64 " + name, Arg{Number, 0, int64(v)}} }
func scratchAt(off int64, name string) param {
	return param{"GLOBAL f32* " + name, Arg{Scratch, 0, off}}
}

// call adds a run of a kernel with that body, over lanes work items. With groups,
// lanes is a number of groups.
func (w *writer) call(lanes int, params []param, body string) {
	w.add(up(lanes, GroupLanes), params, body)
}

func (w *writer) groups(groups int, params []param, body string) {
	w.add(groups*GroupLanes, params, body)
}

func (w *writer) add(lanes int, params []param, body string) {
	if lanes == 0 {
		return
	}
	var text, views strings.Builder
	args := make([]Arg, len(params))
	for i, p := range params {
		args[i] = p.arg
		if p.arg.Role == Number {
			fmt.Fprintf(&text, ", %s", p.c)
			continue
		}
		fmt.Fprintf(&text, ", u64 at%d", i)
		typ, name, _ := strings.Cut(p.c, "* ")
		fmt.Fprintf(&views, "\t%s* %s = (%s*)(MEM + at%d);\n", typ, name, typ, i)
	}
	rest := fmt.Sprintf("(GLOBAL u8* MEM, GLOBAL i32* STATUS%s) {\n%s%s}\n", text.String(), views.String(), body)
	h := fnv.New64a()
	h.Write([]byte(rest))
	name := fmt.Sprintf("k%016x", h.Sum64())
	w.calls = append(w.calls, Call{Name: name, Source: "KERNEL void " + name + rest, Args: args, Lanes: lanes, Group: GroupLanes})
}

// up is the least multiple of to that is at least n.
func up(n, to int) int { return (n + to - 1) / to * to }

// floats is a number as C writes it, exact.
func float(v float64) string {
	return fmt.Sprintf("(%xf)", float32(v))
}

// Kinds lists the ops that have templates, in alphabetical order.
func Kinds() []string { return slices.Sorted(maps.Keys(templates)) }
