package host

import (
	"time"

	"github.com/berth-ml/berth/engine/device"
	"github.com/berth-ml/berth/engine/fuse"
)

// instr is one step of a program: a kernel, with its arguments bound to memory.
type instr struct {
	cluster *fuse.Cluster // nil for a copy
	kernel  Kernel        // nil for a copy
	work    *device.Work  // the cluster, as Config.OnKernel is told of it
	packing *packing      // nil unless the kernel packs an input of the graph
	in, out [][]byte
	// overwrites lists the donated inputs that no instruction before this one
	// overwrites.
	overwrites []int
}

// temp is an argument in the scratch region.
type temp struct {
	arg *[]byte
	block
}

// program is a plan as instructions. It is used under the workspace's lock
// only.
type program struct {
	code      []instr
	inArgs    [][]*[]byte // per input: the arguments that are its memory
	outArgs   [][]*[]byte // per output, likewise; none for outputs that alias
	temps     []temp
	tempBytes int64 // of temporaries; the kernels' scratch follows them
	bytes     int64 // of temporaries and the kernels' scratch

	checkFinite bool // fail when a kernel writes NaN or Inf
	onKernel    func(w *device.Work, took time.Duration)

	// The memory to which the arguments are bound now.
	boundIn  []*buffer
	boundOut []*buffer
	moves    int // of the workspace, when temporaries were bound
	scratch  []byte
}

// point binds the arguments to buffers and to the scratch region. It leaves
// those that did not change since the last call. out[k] is nil if output k
// aliases an input.
func (p *program) point(in, out []*buffer, w *workspace) {
	for j, b := range in {
		if p.boundIn[j] != b {
			p.boundIn[j] = b
			assign(p.inArgs[j], b.data)
		}
	}
	for k, b := range out {
		if b != nil && p.boundOut[k] != b {
			p.boundOut[k] = b
			assign(p.outArgs[k], b.data)
		}
	}
	if p.moves == w.moves {
		return
	}
	p.moves = w.moves
	for _, t := range p.temps {
		*t.arg = w.bytes(t.off, t.size)
	}
	p.scratch = w.bytes(p.tempBytes, p.bytes-p.tempBytes)
}

// assign sets arguments to the same memory.
func assign(args []*[]byte, data []byte) {
	for _, a := range args {
		*a = data
	}
}
