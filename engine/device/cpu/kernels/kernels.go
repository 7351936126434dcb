package kernels

import (
	"fmt"
	"maps"
	"strings"

	"github.com/berth-ml/berth/engine/device"
	"github.com/berth-ml/berth/engine/graph"
)

// Task is one parallel loop, cut into chunks.
type Task interface {
	// Chunk runs piece i. Chunks may run in any order and at the same time.
	Chunk(i int)
}

// Pool runs tasks.
type Pool interface {
	// Do runs Chunk(0) to Chunk(chunks-1) and returns when all are done. It
	// allocates nothing.
	Do(chunks int, t Task)
	// Threads is how many chunks run at the same time.
	Threads() int
}

// Args is the memory of one run: the node's inputs and outputs in order and
// ScratchBytes of working memory with undefined contents. Each is contiguous
// and 64-byte aligned. An output may be the very memory of an input where the
// op's Alias says so. Kept is memory for what a [Keeper] keeps, or nil; Made
// says that an earlier run has made that there, of the same input.
type Args struct {
	In, Out [][]byte
	Scratch []byte
	Cache   []byte
	Cached  bool
}

// Kernel runs one node. It keeps its arguments in its fields while it runs, so
// an instance is for one goroutine at a time, and a run allocates nothing.
type Kernel interface {
	// ScratchBytes is the working memory that Run needs.
	ScratchBytes() int64
	// Run computes the outputs. What the data does wrong (an id outside a
	// table) is an error; the outputs are then undefined.
	Run(p Pool, a *Args) error
}

// Keeper is a kernel that reads an input in an order of its own, and can keep it
// in that order from run to run.
type Keeper interface {
	Kernel
	// Keeps says which input that is, the bytes it takes in that order, and what
	// the order is: kernels with equal layouts make the same of the same input.
	// With 0 bytes nothing is kept. A run without Args.Kept gives the same
	// results.
	Keeps() (input int, bytes int64, layout string)
}

// constructor binds a node's attributes and shapes to a kernel.
type constructor func(n *graph.Node) (Kernel, error)

// table holds the constructors of every family by type-erased name.
var table = merge(
	elementwiseKernels, binaryKernels, matmulKernels, convKernels, poolingKernels, reduceKernels, movementKernels,
	softmaxKernels, lossKernels, normKernels, randomKernels, gatherKernels, attentionKernels, updateKernels,
)

// merge joins the families. A name in two of them is a broken invariant.
func merge(families ...map[string]constructor) map[string]constructor {
	all := map[string]constructor{}
	for _, f := range families {
		for name := range f {
			if all[name] != nil {
				panic("BUG: kernel " + name + " is registered twice")
			}
		}
		maps.Copy(all, f)
	}
	return all
}

// New makes the kernel of a node. It fails with [device.ErrUnsupported] and the
// reason where there is none.
func New(n *graph.Node) (Kernel, error) {
	c := table[erased(n)]
	if c == nil {
		c = table[variadic(n)]
	}
	if c == nil {
		return nil, fmt.Errorf("%w: there is no kernel %s: convert its inputs or run the node on another device",
			device.ErrUnsupported, erased(n))
	}
	k, err := c(n)
	if err != nil {
		return nil, fmt.Errorf("%w: %s: %w", device.ErrUnsupported, erased(n), err)
	}
	return k, nil
}

// erased is the name a kernel is looked up by: the kind and the element types,
// "matmul(f32,f32)->f32".
func erased(n *graph.Node) string {
	return n.Op.Kind() + "(" + types(n.In) + ")->" + types(n.Out)
}

// variadic is the name of kernels that take any number of inputs of one
// element type, "concat(f32...)->f32"; "" if n's inputs differ in type.
func variadic(n *graph.Node) string {
	for _, v := range n.In {
		if v.Meta.DType != n.In[0].Meta.DType {
			return ""
		}
	}
	if len(n.In) == 0 {
		return ""
	}
	return n.Op.Kind() + "(" + n.In[0].Meta.DType.String() + "...)->" + types(n.Out)
}

func types(vs []*graph.Value) string {
	s := make([]string, len(vs))
	for i, v := range vs {
		s[i] = v.Meta.DType.String()
	}
	return strings.Join(s, ",")
}
