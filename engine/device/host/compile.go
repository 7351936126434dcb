package host

import (
	"crypto/sha256"
	"fmt"

	"github.com/berth-ml/berth/engine/device"
	"github.com/berth-ml/berth/engine/fuse"
	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/engine/shape"
)

// instr is a step with its kernel and its arguments bound to memory.
type instr struct {
	cluster *fuse.Cluster // nil for a copy
	kernel  Kernel        // nil for a copy
	work    *device.Work  // what whoever times kernels is told
	keep    *keeping      // nil where it keeps nothing
	in, out [][]byte
	first   []int // inputs whose memory nothing before it writes
}

// temp is an argument in the scratch region.
type temp struct {
	arg       *[]byte
	off, size int64
}

// executable implements device.Executable. Its code and bindings are used
// under dev.running only.
type executable struct {
	dev       *Device
	graph     *graph.Graph
	signature string
	memory    device.Memory
	alias     []int  // per output, -1 for none
	donated   []bool // per input
	finite    bool   // check every output for NaN and Inf

	code     []instr
	inArgs   [][]*[]byte // per input: the arguments it is
	outArgs  [][]*[]byte // per output, empty for those that alias
	temps    []temp
	arena    int64 // bytes of temporaries; kernels' own scratch follows
	boundIn  []*buffer
	boundOut []*buffer
	laid     int // which layout of dev.scratch temps are bound to
	scratch  []byte
	at       int     // index of the instruction that runs
	idle     *launch // under dev.mu
}

// Memory states the bytes that running takes.
func (x *executable) Memory() device.Memory { return x.memory }

// Signature is equal for equal work.
func (x *executable) Signature() string { return x.signature }

// Graph is what was compiled.
func (x *executable) Graph() *graph.Graph { return x.graph }

// Compile plans a segment, or finds the plan made before for an equal one.
func (d *Device) Compile(g *graph.Graph, o device.CompileOptions) (device.Executable, error) {
	signature := signatureOf(g, o)
	d.compiling.Lock()
	defer d.compiling.Unlock()
	d.mu.Lock()
	closed, known := d.closed, d.loaded[signature]
	if known != nil {
		d.stats.CompileHits++
	} else {
		d.stats.CompileMisses++
	}
	d.mu.Unlock()
	if closed {
		return nil, fmt.Errorf("%s: %w", d.spec.ID, device.ErrClosed)
	}
	if known != nil {
		return known, nil
	}
	x, err := d.compile(g, o)
	if err != nil {
		return nil, fmt.Errorf("%s: compiling %s: %w", d.spec.ID, g.Name, err)
	}
	x.signature = signature
	d.mu.Lock()
	d.loaded[signature] = x
	d.mu.Unlock()
	return x, nil
}

// signatureOf is equal for work that can share an executable. Names do not
// count, except where the point is to name the layer that failed.
func signatureOf(g *graph.Graph, o device.CompileOptions) string {
	s := fmt.Sprintf("%s alias=%v", graph.Signature(g), o.Alias)
	if !o.CheckFinite {
		return s
	}
	h := sha256.New()
	for _, n := range g.Nodes {
		fmt.Fprintln(h, where(fuse.Single(n)), n)
	}
	return fmt.Sprintf("%s finite=%x", s, h.Sum(nil)[:16])
}

// compile makes an executable and room for its temporaries.
func (d *Device) compile(g *graph.Graph, o device.CompileOptions) (*executable, error) {
	p, err := newPlan(g, o)
	if err != nil {
		return nil, err
	}
	x := &executable{dev: d, graph: g, alias: p.alias, finite: o.CheckFinite, arena: p.arena,
		donated: make([]bool, len(g.Inputs)),
		inArgs:  make([][]*[]byte, len(g.Inputs)), outArgs: make([][]*[]byte, len(g.Outputs)),
		boundIn: make([]*buffer, len(g.Inputs)), boundOut: make([]*buffer, len(g.Outputs))}
	for _, j := range p.alias {
		if j >= 0 {
			x.donated[j] = true
		}
	}
	var scratch int64
	if d.config.Bind != nil {
		if scratch, err = x.bind(p); err != nil {
			return nil, err
		}
	}
	x.memory = memoryOf(g, p.alias)
	x.memory.Temporary = p.arena + scratch
	return x, d.growScratch(x.memory.Temporary)
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

// bind makes the instructions and returns the scratch bytes of the kernel that
// needs most.
func (x *executable) bind(p *plan) (scratch int64, err error) {
	seen := make([]bool, len(x.donated))
	for i := range p.steps {
		st := &p.steps[i]
		in := instr{cluster: st.cluster, in: make([][]byte, len(st.in)), out: make([][]byte, len(st.out))}
		if nothingToDo(st) {
			continue
		}
		if c := st.cluster; c != nil {
			if in.kernel, err = x.dev.config.Bind(c); err != nil {
				return 0, fmt.Errorf("%s: %w", where(c), err)
			}
			in.work = &device.Work{Name: c.Name(), Nodes: c.Nodes, Cost: c.Cost()}
			scratch = max(scratch, in.kernel.ScratchBytes())
			x.keeps(&in, st)
		}
		for a, s := range st.in {
			x.connect(p, s, &in.in[a])
		}
		for a, s := range st.out {
			x.connect(p, s, &in.out[a])
		}
		x.firsts(p, st, &in, seen)
		x.code = append(x.code, in)
	}
	return scratch, nil
}

// nothingToDo tells the steps all of whose outputs are empty.
func nothingToDo(st *step) bool {
	for _, s := range st.out {
		if s.size > 0 {
			return false
		}
	}
	return true
}

// connect files an argument under the storage it is.
func (x *executable) connect(p *plan, s *storage, arg *[]byte) {
	switch {
	case s.place == inTemp:
		x.temps = append(x.temps, temp{arg, s.off, s.size})
	case s.place == inOutput && p.alias[s.index] >= 0:
		j := p.alias[s.index]
		x.inArgs[j] = append(x.inArgs[j], arg)
	case s.place == inOutput:
		x.outArgs[s.index] = append(x.outArgs[s.index], arg)
	default:
		x.inArgs[s.index] = append(x.inArgs[s.index], arg)
	}
}

// growScratch makes the device's scratch region at least n bytes. It waits
// for a launch that runs.
func (d *Device) growScratch(n int64) error {
	d.running.Lock()
	defer d.running.Unlock()
	if n <= d.scratch.size {
		return nil
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	old := d.scratch
	d.unreserve(old.off, old.size, device.Scratch)
	off, err := d.reserve(n, device.Scratch)
	if err != nil {
		var back error // what was there a moment ago fits again
		if d.scratch.off, back = d.reserve(old.size, device.Scratch); back != nil {
			panic(fmt.Sprintf("BUG: the old scratch region does not fit again: %v", back))
		}
		d.laid++
		return fmt.Errorf("%w, for temporaries", err)
	}
	d.scratch = span{off, n}
	d.laid++
	return nil
}

// where names a cluster for an error: its layer and line, and its ops.
func where(c *fuse.Cluster) string {
	what, n := c.Name(), c.Nodes[0]
	if len(c.Nodes) == 1 {
		what = graph.OpString(n.Op)
	}
	if n.Layer == nil {
		return what
	}
	if pos := n.Layer.Pos.String(); pos != "" {
		return fmt.Sprintf("%s: %v: %s", pos, n.Layer, what)
	}
	return fmt.Sprintf("%v: %s", n.Layer, what)
}

// nonFinite finds the first NaN or Inf among the float outputs of a node, which
// is a cluster of its own.
func nonFinite(in *instr) error {
	if in.cluster == nil {
		return nil
	}
	for o, v := range in.cluster.Out {
		if v.Meta.DType != shape.Float32 {
			continue
		}
		for i, f := range shape.View[float32](in.out[o]) {
			if f-f != 0 { // NaN for NaN and for both infinities
				return &device.NonFiniteError{Node: v.Node, Value: v.Name, Index: i}
			}
		}
	}
	return nil
}
