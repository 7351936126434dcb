package eager

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/berth-ml/berth/engine/device"
	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/engine/ops"
	"github.com/berth-ml/berth/engine/shape"
)

// entry is an op at given input metadata on one device: its graph and
// executables.
type entry struct {
	op    graph.Op     // keeps a function, whose key is its address
	graph *graph.Graph // of one node, or of a function's
	sure  bool         // no contents of its inputs make it fail
	outs  []shape.Meta
	alias []int // per output, the input it may be computed in, or -1
	exes  []*variant
	over  bool // the cache has dropped it; only the lane's goroutine uses it
}

// variant is an executable that computes some outputs in the memory of inputs.
// Variants are made and used by the lane's goroutine.
type variant struct {
	donated uint64 // bit k: output k takes over input alias[k]
	exe     device.Executable
	scratch shape.Meta // of exe's working memory
}

// cacheSize is the most entries that a cache keeps: a program may make ops without end,
// such as a multiplication by each new learning rate.
const cacheSize = 2048

// cache finds the entries of a device. A full cache drops all of them.
type cache struct {
	dev     device.Device
	dropped atomic.Bool // there are entries in over
	mu      sync.RWMutex
	over    []*entry              // dropped, for the lane to release
	entries map[string]*entry     // by appendKey
	quick   map[quickKey]*entry   // those of usual calls
	plain   map[reflect.Type]bool // see isPlain
}

func newCache(dev device.Device) cache {
	return cache{dev: dev, entries: map[string]*entry{}, quick: map[quickKey]*entry{}, plain: map[reflect.Type]bool{}}
}

// lookup finds or makes the entry of a call; a new one is checked against the
// op's metadata rule and the device.
func (c *cache) lookup(op graph.Op, args []*Tensor) (*entry, error) {
	c.mu.RLock()
	quick, usual := quick(op, args, c.plain)
	if usual {
		if e := c.quick[quick]; e != nil {
			c.mu.RUnlock()
			return e, nil
		}
	}
	c.mu.RUnlock()
	var room [192]byte
	key := appendKey(room[:0], op, args)
	c.mu.RLock()
	e := c.entries[string(key)]
	c.mu.RUnlock()
	if e != nil && !usual {
		return e, nil
	}
	made, err := newEntry(op, args, c.dev)
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if e = c.entries[string(key)]; e == nil {
		e = made
		c.add(string(key), e)
	}
	if usual {
		c.quick[quick] = e
	} else if t := reflect.TypeOf(op); !c.plain[t] {
		c.plain[t] = isPlain(t)
	}
	return e, nil
}

// add adds an entry. The caller holds mu.
func (c *cache) add(key string, e *entry) {
	if len(c.entries) >= cacheSize {
		c.drop()
	}
	c.entries[key] = e
}

// drop empties the cache. The caller holds mu.
func (c *cache) drop() {
	c.over = slices.AppendSeq(c.over, maps.Values(c.entries))
	clear(c.entries)
	clear(c.quick)
	c.dropped.Store(true)
}

// sweep releases the executables of dropped entries. The lane's goroutine calls it.
func (c *cache) sweep() {
	if !c.dropped.Load() {
		return
	}
	c.mu.Lock()
	over := c.over
	c.over = nil
	c.dropped.Store(false)
	c.mu.Unlock()
	for _, e := range over {
		e.over = true
		e.release()
	}
}

// close drops and releases all entries. The lane's goroutine calls it when it ends.
func (c *cache) close() {
	c.mu.Lock()
	c.drop()
	c.mu.Unlock()
	c.sweep()
}

// release releases the executables; those that are queued still run.
func (e *entry) release() {
	for _, v := range e.exes {
		v.exe.Release()
	}
	e.exes = nil
}

func newEntry(op graph.Op, args []*Tensor, dev device.Device) (*entry, error) {
	metas := make([]shape.Meta, len(args))
	for i, a := range args {
		metas[i] = a.meta
	}
	g, err := graphOf(op, metas)
	if err != nil {
		return nil, err
	}
	e := &entry{op: op, graph: g, sure: true, outs: graph.Metas(g.Outputs), alias: make([]int, len(g.Outputs))}
	for k := range e.alias {
		e.alias[k] = -1
	}
	if a, ok := op.(graph.Aliaser); ok {
		for k, j := range a.Alias() {
			if k < len(e.outs) && j >= 0 && j < len(metas) && metas[j].Equal(e.outs[k]) {
				e.alias[k] = j
			}
		}
	}
	for _, n := range g.Nodes {
		e.sure = e.sure && sure(n.Op, graph.Metas(n.In))
		if err := dev.Supports(n); err != nil {
			return nil, err
		}
	}
	return e, nil
}

// graphOf is the graph of an op, or of a function's ops.
func graphOf(op graph.Op, in []shape.Meta) (*graph.Graph, error) {
	if f, ok := op.(*Function); ok {
		return f.graph(in)
	}
	if _, err := op.Infer(in); err != nil {
		return nil, fmt.Errorf("%w: %w", graph.ErrShape, err)
	}
	b := graph.NewBuilder(op.Kind(), 1)
	for i, v := range b.Apply(op, inputs(b, in)...) {
		b.Output(fmt.Sprintf("out%d", i), v)
	}
	return b.Graph()
}

// sure reports whether an op succeeds whatever its inputs hold. Integers can be outside
// a table, and a check can find what it looks for; code of a program can do anything.
func sure(op graph.Op, in []shape.Meta) bool {
	integers := slices.ContainsFunc(in, func(m shape.Meta) bool { return m.DType != shape.Float32 })
	return !integers && !graph.BringsKernel(op) && op != graph.Op(ops.CheckFinite{})
}

// variant compiles the entry, once for each set of donated inputs.
func (e *entry) variant(dev device.Device, donated uint64) (*variant, error) {
	for _, v := range e.exes {
		if v.donated == donated {
			return v, nil
		}
	}
	alias := make([]int, len(e.alias))
	for k, j := range e.alias {
		alias[k] = -1
		if donated>>k&1 == 1 {
			alias[k] = j
		}
	}
	exe, err := dev.Compile(e.graph, device.CompileOptions{Alias: alias})
	if err != nil {
		return nil, err
	}
	v := &variant{donated, exe, shape.Meta{DType: shape.Uint8, Shape: shape.Of(int(exe.Memory().Temporary))}}
	e.exes = append(e.exes, v)
	return v, nil
}
