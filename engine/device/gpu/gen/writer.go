package gen

import (
	"fmt"
	"hash/fnv"
	"regexp"
	"slices"
	"strings"

	"github.com/berth-ml/berth/engine/graph"
)

// template writes the kernels of an op.
type template func(w *writer, op graph.Op) error

// of makes a template of a function that takes one type of op and cannot fail.
func of[T graph.Op](f func(w *writer, o T)) template {
	return func(w *writer, op graph.Op) error {
		f(w, op.(T))
		return nil
	}
}

// writer collects the kernels of a cluster.
type writer struct {
	calls   []Call
	scratch int64         // bytes; each node uses them from the start
	when    []graph.Guard // of the cluster: each kernel begins with them

	// The node whose kernels are written now.
	node      *graph.Node
	ins, outs []Arg   // its inputs and outputs among the cluster's
	then      *tail   // takes each number of output 0; nil to store it
	batch     *[]loop // takes the bodies of items; nil to write kernels
}

// tail is elementwise nodes that go on with a number h of the node's, for element i.
type tail struct {
	params []param
	text   string
}

// loop is the body of a kernel for each number i below n.
type loop struct {
	node   *graph.Node
	n      int
	params []param
	body   string
}

// elems is the number of elements of input i.
func (w *writer) elems(i int) int { return w.node.In[i].Meta.Elems() }

// outElems is the number of elements of output i.
func (w *writer) outElems(i int) int { return w.node.Out[i].Meta.Elems() }

// param is a parameter of a kernel: its declaration, and the argument for it. The
// index of an input or output is the node's, or the cluster's where ofCluster is set.
type param struct {
	c         string // "GLOBAL const f32* x", or "i64 n"
	arg       Arg
	ofCluster bool
}

func in(i int, name string) param       { return memory("const f32", name, In, i) }
func inInts(i int, name string) param   { return memory("const i32", name, In, i) }
func inHalves(i int, name string) param { return memory("const u16", name, In, i) } // bfloat16
func inBytes(i int, name string) param  { return memory("const u8", name, In, i) }  // int8 by block
func out(i int, name string) param      { return memory("f32", name, Out, i) }
func outInts(i int, name string) param  { return memory("i32", name, Out, i) }

// memory is a parameter that is an input or output of the node.
func memory(typ, name string, role Role, i int) param {
	return param{c: "GLOBAL " + typ + "* " + name, arg: Arg{Role: role, Index: i}}
}

func number(name string, v int) param {
	return param{c: "i64 " + name, arg: Arg{Role: Number, Value: int64(v)}}
}

func table(name string, floats []float32) param {
	return param{c: "GLOBAL const f32* " + name, arg: Arg{Role: Table, Floats: &floats}}
}

func scratchAt(off int64, name string) param {
	return param{c: "GLOBAL f32* " + name, arg: Arg{Role: Scratch, Value: off}}
}

// argument is the argument for a parameter, with an index of the cluster.
func (w *writer) argument(p param) Arg {
	switch {
	case p.ofCluster:
	case p.arg.Role == In:
		return w.ins[p.arg.Index]
	case p.arg.Role == Out:
		return w.outs[p.arg.Index]
	}
	return p.arg
}

// site is the number of the step that a kernel belongs to. A kernel that fails writes it
// into the status word.
var site = param{c: "i64 SITE", arg: Arg{Role: Site}}

// items adds a run of a kernel whose body computes element i of n, alone.
func (w *writer) items(n int, params []param, body string) {
	if w.batch != nil {
		*w.batch = append(*w.batch, w.loop(n, params, body))
		return
	}
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

// mostArgs is the most arguments that every OpenCL device takes: 1024 bytes, the memory
// and the status word among them.
const mostArgs = 1024/8 - 2

// add adds a call with the text and the arguments for that body. Where they are too many,
// numbers are in the text.
func (w *writer) add(c Call, params []param, body string) {
	if c.Groups == 0 && c.Items == 0 {
		return
	}
	params, body = w.guarded(&c, params, body)
	var text, views strings.Builder
	c.Node = w.node
	for i, p := range params {
		if p.arg.Role == Number && len(params) > mostArgs {
			fmt.Fprintf(&views, "\t%s = %d;\n", p.c, p.arg.Value)
			continue
		}
		c.Args = append(c.Args, w.argument(p))
		if p.arg.Role == Number || p.arg.Role == Site || p.arg.Role == Table {
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

// sharedMemory is the declarations of a group's memory in the text of a kernel.
var sharedMemory = regexp.MustCompile(`(?m)^\t+SHARED [^;]*;\n`)

// guarded adds the cluster's guards to a kernel: where one is not met, it does nothing. All
// lanes read the same numbers, so all of a group come to its barriers, or none. Around such
// barriers, pocl's kernels hang unless there is one before the condition and one behind.
func (w *writer) guarded(c *Call, params []param, body string) ([]param, string) {
	if len(w.when) == 0 {
		return params, body
	}
	params = slices.Clip(params)
	met := make([]string, len(w.when))
	for i, guard := range w.when {
		params = append(params, memory("const f32", fmt.Sprint("WHEN", i), When, i))
		met[i] = fmt.Sprintf("WHEN%d[0] != 0.0f", i)
		if guard.Else {
			met[i] = fmt.Sprintf("WHEN%d[0] == 0.0f", i)
		}
	}
	all := strings.Join(met, " && ")
	if c.Groups == 0 {
		return params, "\tif (!(" + all + ")) return;\n" + body
	}
	shared := strings.Join(sharedMemory.FindAllString(body, -1), "")
	body = sharedMemory.ReplaceAllString(body, "")
	return params, shared + "\tBARRIER;\n\tif (" + all + ") {\n" + body + "\tBARRIER;\n\t}\n\tBARRIER;\n"
}

// result is the parameters with which a kernel stores numbers of output 0, and the
// statement that stores number v at index i, followed by the nodes that go on with it.
func (w *writer) result() (params []param, store func(i, v string) string) {
	if w.then == nil {
		return []param{out(0, "Z")}, func(i, v string) string { return fmt.Sprintf("Z[%s] = %s;", i, v) }
	}
	return slices.Clip(w.then.params), func(i, v string) string {
		return fmt.Sprintf("{\n\ti64 at = %s;\n\tf32 h = %s;\n\ti64 i = at;\n%s\t}", i, v, w.then.text)
	}
}

// loop is the loop of the node whose kernels are written, with parameters of the cluster.
func (w *writer) loop(n int, params []param, body string) loop {
	settled := make([]param, len(params))
	for i, p := range params {
		settled[i] = param{p.c, w.argument(p), true}
	}
	return loop{w.node, n, settled, body}
}
