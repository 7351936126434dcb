package device

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/berth-ml/berth/engine/graph"
)

// Kernels are the kernels of a kind of device, by name: an op and the element types of its
// inputs and outputs, "matmul(f32,f32)->f32", or for any number of inputs of one type
// "concat(f32...)->f32". K is what the kind makes a kernel from. Compiled segments and
// single ops find their kernels here.
type Kernels[K any] map[string]K

// Find is the entry for a node. It fails with ErrUnsupported where there is none.
func (ks Kernels[K]) Find(n *graph.Node) (K, error) {
	name := KernelName(n)
	k, ok := ks[name]
	if !ok {
		k, ok = ks[variadic(n)]
	}
	if !ok {
		return k, fmt.Errorf("%w: it has no kernel %s: convert the op's inputs to other types, or run the op on another device", ErrUnsupported, name)
	}
	return k, nil
}

// Names lists the names in alphabetical order.
func (ks Kernels[K]) Names() []string { return slices.Sorted(maps.Keys(ks)) }

// MergeKernels joins kernels. A name in two lists is a broken invariant.
func MergeKernels[K any](lists ...Kernels[K]) Kernels[K] {
	all := Kernels[K]{}
	for _, ks := range lists {
		for name := range ks {
			if _, known := all[name]; known {
				panic("BUG: kernel " + name + " is registered twice")
			}
		}
		maps.Copy(all, ks)
	}
	return all
}

// KernelName is the name of the kernel that a node needs, with the type of each input.
func KernelName(n *graph.Node) string {
	return n.Op.Kind() + "(" + elementTypes(n.In) + ")->" + elementTypes(n.Out)
}

// variadic is the name of a kernel for any number of inputs; "" if the types of n's
// inputs differ.
func variadic(n *graph.Node) string {
	for _, v := range n.In {
		if v.Meta.DType != n.In[0].Meta.DType {
			return ""
		}
	}
	if len(n.In) == 0 {
		return ""
	}
	return n.Op.Kind() + "(" + n.In[0].Meta.DType.String() + "...)->" + elementTypes(n.Out)
}

func elementTypes(vs []*graph.Value) string {
	s := make([]string, len(vs))
	for i, v := range vs {
		s[i] = v.Meta.DType.String()
	}
	return strings.Join(s, ",")
}

// KernelList is the kernels that a kind of device has.
type KernelList struct {
	Names []string // in alphabetical order, as in Kernels
	About string   // what they are made for: "each for amx, avx512, avx2 and generic"
}

// kernelLists has a function for each kind that has kernels; guarded by mu.
var kernelLists = map[string]func() KernelList{}

// RegisterKernels makes a kind's kernels known to KernelsOf. Kinds call it from init.
func RegisterKernels(kind string, list func() KernelList) {
	mu.Lock()
	defer mu.Unlock()
	kernelLists[kind] = list
}

// KernelsOf lists the kernels of a kind, whether or not there is a device of it. Ops that
// bring their own kernel are not among them. ok is false for a kind that computes
// nothing.
func KernelsOf(kind string) (list KernelList, ok bool) {
	mu.Lock()
	f := kernelLists[kind]
	mu.Unlock()
	if f == nil {
		return list, false
	}
	return f(), true
}
