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
	Site                // no memory: the number of the step in its program, at least 1
)

// Arg is an argument of a kernel: 64 bits, an offset in bytes or a number.
type Arg struct {
	Role  Role
	Index int
	Value int64
}

// Call is one run of a kernel. Before its own arguments, a kernel has two: the
// device's memory, and the status word. No kernel writes anything once that is not 0.
type Call struct {
	Name   string // unique for the text
	Source string
	Args   []Arg
	Groups int // work groups, whose lanes work together
	Group  int // lanes of a group; 0: any number
	Items  int // elements, one for each lane; 0 where there are Groups
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

// site is the number of the step that a kernel belongs to. A kernel that fails writes it
// into the status word.
var site = param{"i64 SITE", Arg{Role: Site}}

// items adds a run of a kernel whose body computes element i of n, alone.
func (w *writer) items(n int, params []param, body string) {
	w.add(Call{Items: n}, append(slices.Clip(params), number("n", n)), "\ti64 i = ITEM;\n\tif (i >= n || STATUS[0]) return;\n"+body)
}

// groups adds a run of a kernel whose lanes work together, in that many groups. Its body
// tests the status word where it writes: a lane that returned would keep others waiting
// at a barrier.
func (w *writer) groups(groups int, params []param, body string) {
	w.add(Call{Groups: groups}, params, body)
}

// tiles is groups for a body that is written for so many lanes of a group.
func (w *writer) tiles(groups, lanes int, params []param, body string) {
	w.add(Call{Groups: groups, Group: lanes}, params, body)
}

// add adds a call with the text and the arguments for that body.
func (w *writer) add(c Call, params []param, body string) {
	if c.Groups == 0 && c.Items == 0 {
		return
	}
	var text, views strings.Builder
	c.Args = make([]Arg, len(params))
	for i, p := range params {
		c.Args[i] = p.arg
		if p.arg.Role == Number || p.arg.Role == Site {
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
	c.Name = fmt.Sprintf("k%016x", h.Sum64())
	c.Source = "KERNEL void " + c.Name + rest
	w.calls = append(w.calls, c)
}

// up is the least multiple of to that is at least n.
func up(n, to int) int { return (n + to - 1) / to * to }

// float is a number as C writes it, exact.
func float(v float64) string {
	return fmt.Sprintf("(%xf)", float32(v))
}

// Kinds lists the ops that have templates, in alphabetical order.
func Kinds() []string { return slices.Sorted(maps.Keys(templates)) }
