package streams

import (
	"crypto/sha256"
	"fmt"
	"slices"
	"sync"

	"github.com/berth-ml/berth/engine/device"
	"github.com/berth-ml/berth/engine/device/planner"
	"github.com/berth-ml/berth/engine/fuse"
	"github.com/berth-ml/berth/engine/graph"
)

// Compile plans a segment, or finds the executable of an equal one.
func (d *Device) Compile(g *graph.Graph, o device.CompileOptions) (device.Executable, error) {
	signature, err := signatureOf(g, o)
	if err != nil {
		return nil, d.notCompiled(g, err)
	}
	if err := d.refusal(); err != nil {
		return nil, err
	}
	x, from := d.cache.use(signature), device.InMemory
	if x != nil {
		d.hits.Add(1)
	} else if x, from, err = d.compile(g, o, signature); err != nil {
		return nil, err
	}
	if o.From != nil {
		o.From(from)
	}
	return x, nil
}

// compile is Compile of a segment that was not in the cache, and adds it.
func (d *Device) compile(g *graph.Graph, o device.CompileOptions, signature string) (x *executable, from device.Source, err error) {
	d.compiling.Lock()
	defer d.compiling.Unlock()
	if err := d.refusal(); err != nil {
		return nil, 0, err
	}
	if x = d.cache.use(signature); x != nil { // by now
		d.hits.Add(1)
		return x, device.InMemory, nil
	}
	d.misses.Add(1)
	if x, err = d.planned(g, o, signature); err != nil {
		return nil, 0, err
	}
	from = device.Anew
	if p, ok := x.program.(Loader); ok {
		if from, err = p.Load(o.Stop); err != nil {
			return nil, 0, d.notCompiled(g, err)
		}
	}
	d.cache.add(x)
	return x, from, nil
}

// Estimate plans a segment, unless an equal one was planned before, and keeps
// the plan for Compile.
func (d *Device) Estimate(g *graph.Graph, o device.CompileOptions) (device.Memory, error) {
	x, err := d.estimate(g, o)
	if err != nil {
		return device.Memory{}, err
	}
	return x.memory, nil
}

// Find implements [device.Finder].
func (d *Device) Find(list []device.Segment) ([]device.Source, error) {
	from := make([]device.Source, len(list)) // InMemory
	seen, kernels := map[string]bool{}, map[string]bool{}
	for i, s := range list {
		x, err := d.estimate(s.Graph, s.Options)
		if err != nil {
			return nil, err
		}
		if _, compiled := d.cache.find(x.signature); compiled || seen[x.signature] {
			continue
		}
		seen[x.signature], from[i] = true, device.Anew
		if p, ok := x.program.(Loader); ok {
			from[i] = p.Find(kernels)
		}
	}
	return from, nil
}

// estimate is the executable of a segment, which may need loading.
func (d *Device) estimate(g *graph.Graph, o device.CompileOptions) (*executable, error) {
	signature, err := signatureOf(g, o)
	if err != nil {
		return nil, d.notCompiled(g, err)
	}
	d.compiling.Lock()
	defer d.compiling.Unlock()
	if err := d.refusal(); err != nil {
		return nil, err
	}
	if x, compiled := d.cache.find(signature); compiled {
		return x, nil
	}
	x, err := d.planned(g, o, signature)
	if err == nil {
		d.cache.addPlan(x)
	}
	return x, err
}

// planned is the executable that Estimate planned for an equal segment, or a
// new one. It needs loading.
func (d *Device) planned(g *graph.Graph, o device.CompileOptions, signature string) (*executable, error) {
	if x, _ := d.cache.find(signature); x != nil {
		return x, nil
	}
	x, err := d.newExecutable(g, o)
	if err != nil {
		return nil, d.notCompiled(g, err)
	}
	x.signature = signature
	return x, nil
}

// notCompiled is the error of a segment that could not be compiled.
func (d *Device) notCompiled(g *graph.Graph, err error) error {
	return fmt.Errorf("%s: compiling %s: %w", d.spec.ID, g.Name, err)
}

// executable implements device.Executable: a program with the buffers that a launch of it
// must pass. The cache of its device keeps it.
type executable struct {
	owner     *Device
	graph     *graph.Graph
	signature string
	memory    device.Memory // Temporary is the scratch that a launch needs
	program   Program       // nil on a device that computes nothing

	alias   []int  // per output: the input that it aliases, or -1
	donated []bool // per input
	marks   int    // steps of the program that complete outputs before its end
	mark    []int  // per output: the number of that step among them; marks: the end

	users int     // calls of Compile without a Release; under cache.mu
	idle  *Launch // launches that have ended, for reuse; under heap.mu
}

// Memory states the bytes that running takes.
func (x *executable) Memory() device.Memory { return x.memory }

// Signature is equal for equal work.
func (x *executable) Signature() string { return x.signature }

// Graph is the graph that was compiled.
func (x *executable) Graph() *graph.Graph { return x.graph }

// Release ends the use of one call of Compile.
func (x *executable) Release() { x.owner.cache.release(x) }

// newExecutable plans an executable. It takes no device memory.
func (d *Device) newExecutable(g *graph.Graph, o device.CompileOptions) (*executable, error) {
	p, err := planner.New(g, o, planner.Options{Align: alignment, Alone: d.config.Alone})
	if err != nil {
		return nil, err
	}
	x := &executable{owner: d, graph: g, memory: memoryOf(g, p.Alias), alias: p.Alias, donated: make([]bool, len(g.Inputs))}
	for _, j := range p.Alias {
		if j >= 0 {
			x.donated[j] = true
		}
	}
	x.memory.Temporary = p.TempBytes
	if d.config.Bind != nil {
		if x.program, err = d.config.Bind(p, o); err != nil {
			return nil, err
		}
		x.memory.Temporary = x.program.ScratchBytes()
	}
	x.setMarks(p.Marks())
	return x, nil
}

// setMarks records which outputs are complete at each mark.
func (x *executable) setMarks(marks [][]int) {
	x.marks, x.mark = len(marks), slices.Repeat([]int{len(marks)}, len(x.alias))
	for i, outputs := range marks {
		for _, k := range outputs {
			x.mark[k] = i
		}
	}
}

// memoryOf counts arguments and outputs.
func memoryOf(g *graph.Graph, alias []int) device.Memory {
	var m device.Memory
	for _, v := range g.Inputs {
		m.Arguments += v.Meta.Bytes()
	}
	for k, v := range g.Outputs {
		m.Outputs += v.Meta.Bytes()
		if alias[k] >= 0 {
			m.Aliased += v.Meta.Bytes()
		}
	}
	return m
}

// signatureOf is equal for work that can share an executable. Names do not
// count, unless failures are to name the layer.
func signatureOf(g *graph.Graph, o device.CompileOptions) (string, error) {
	s, err := graph.SignatureUntil(g, o.Stop)
	s = fmt.Sprintf("%s alias=%v", s, o.Alias)
	if err != nil || !o.CheckFinite {
		return s, err
	}
	h := sha256.New()
	for _, n := range g.Nodes {
		fmt.Fprintln(h, fuse.Single(n).Describe(), n, n.Conditional)
	}
	return fmt.Sprintf("%s finite=%x", s, h.Sum(nil)[:16]), nil
}

// cache is the executables of a device, which owns it, by signature. Its methods are safe for concurrent
// use.
type cache struct {
	mu       sync.Mutex
	compiled map[string]*executable
	planned  map[string]*executable // not compiled yet
	idle     []*executable          // those of compiled that nobody uses, the one used longest ago first
	keep     int                    // most of idle
}

func newCache(keep int) *cache {
	return &cache{compiled: map[string]*executable{}, planned: map[string]*executable{}, keep: keep}
}

// mostPlanned bounds the plans of models that were planned and never loaded.
const mostPlanned = 1 << 9

// count is the number of executables that are compiled.
func (c *cache) count() int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return int64(len(c.compiled))
}

// find finds an executable that is compiled, or else planned; nil if there is none.
func (c *cache) find(signature string) (x *executable, compiled bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if x = c.compiled[signature]; x != nil {
		return x, true
	}
	return c.planned[signature], false
}

// forget forgets all executables.
func (c *cache) forget() {
	c.mu.Lock()
	defer c.mu.Unlock()
	clear(c.compiled)
	clear(c.planned)
	c.idle = nil
}

// use finds an executable for one more user; nil if it is not compiled.
func (c *cache) use(signature string) *executable {
	c.mu.Lock()
	defer c.mu.Unlock()
	x := c.compiled[signature]
	if x == nil {
		return nil
	}
	if x.users++; x.users == 1 {
		c.idle = slices.DeleteFunc(c.idle, func(i *executable) bool { return i == x })
	}
	return x
}

// add adds an executable, with one user.
func (c *cache) add(x *executable) {
	c.mu.Lock()
	defer c.mu.Unlock()
	x.users = 1
	c.compiled[x.signature] = x
	delete(c.planned, x.signature)
}

// addPlan keeps an executable that is not compiled.
func (c *cache) addPlan(x *executable) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.planned) == mostPlanned {
		clear(c.planned)
	}
	c.planned[x.signature] = x
}

// release ends a use of an executable. Beyond keep, those used longest ago are forgotten.
func (c *cache) release(x *executable) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if x.users--; x.users != 0 {
		return
	}
	c.idle = append(c.idle, x)
	for len(c.idle) > c.keep {
		delete(c.compiled, c.idle[0].signature)
		c.idle = slices.Delete(c.idle, 0, 1)
	}
}
