package host

import (
	"github.com/berth-ml/berth/engine/device"
	"github.com/berth-ml/berth/engine/device/planner"
	"github.com/berth-ml/berth/engine/device/streams"
	"github.com/berth-ml/berth/engine/fuse"
	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/engine/shape"
)

// instr is one step of a program: a kernel, with its arguments bound to memory.
type instr struct {
	step    *planner.Step
	cluster *fuse.Cluster // nil for a copy
	kernel  Kernel        // nil for a copy
	work    *device.Work  // the cluster, as times tells of it; nil before the first time
	packing *packing      // nil unless the kernel packs an input of the graph
	in, out [][]byte
	when    [][]byte // the numbers of the step's guards
}

// skipped tells whether nothing reads what the instruction would write: a guard is not met.
func (in *instr) skipped() bool {
	for g, number := range in.when {
		if is0 := shape.View[float32](number)[0] == 0; is0 != in.step.When[g].Else {
			return true
		}
	}
	return false
}

// block is a range of the scratch, in bytes.
type block struct{ off, size int64 }

// temp is an argument in the scratch.
type temp struct {
	arg *[]byte
	block
}

// program is a plan as instructions. It implements [streams.Program].
type program struct {
	graph     *graph.Graph
	arena     *arena
	code      []instr
	inArgs    [][]*[]byte // per input: the arguments that are its memory
	outArgs   [][]*[]byte // per output, likewise; none for outputs that alias
	temps     []temp
	tempBytes int64 // of temporaries; the kernels' scratch follows them
	bytes     int64 // of temporaries and the kernels' scratch

	checkFinite bool                   // fail when a kernel writes NaN or Inf
	finite      func(x []float32) bool // see [Config]
	times       streams.KernelTimes

	// The offsets of the memory to which the arguments are bound now; -1 before the
	// first time.
	boundIn, boundOut []int64
	boundTemps        int64
	scratch           []byte // of the kernels
}

// ScratchBytes implements [streams.Program].
func (p *program) ScratchBytes() int64 { return p.bytes }

// point binds the arguments to the buffers and the scratch of a launch. It leaves
// those whose memory is where it was at the last call.
func (p *program) point(l *streams.Launch) {
	for j, v := range p.graph.Inputs {
		if at := l.Input(j); p.boundIn[j] != at {
			p.boundIn[j] = at
			assign(p.inArgs[j], p.arena.Bytes(at, v.Meta.Bytes()))
		}
	}
	for k, v := range p.graph.Outputs {
		if at := l.Output(k); at >= 0 && p.boundOut[k] != at {
			p.boundOut[k] = at
			assign(p.outArgs[k], p.arena.Bytes(at, v.Meta.Bytes()))
		}
	}
	at := l.Scratch()
	if at < 0 || p.boundTemps == at {
		return
	}
	p.boundTemps = at
	for _, t := range p.temps {
		*t.arg = p.arena.Bytes(at+t.off, t.size)
	}
	p.scratch = p.arena.Bytes(at+p.tempBytes, p.bytes-p.tempBytes)
}

// assign sets arguments to the same memory.
func assign(args []*[]byte, data []byte) {
	for _, a := range args {
		*a = data
	}
}
