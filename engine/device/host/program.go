package host

import (
	"unsafe"

	"github.com/berth-ml/berth/engine/device"
	"github.com/berth-ml/berth/engine/fuse"
)

// instr is one step of a program: a kernel, with its arguments bound to memory.
type instr struct {
	cluster *fuse.Cluster // nil for a copy
	kernel  Kernel        // nil for a copy
	work    *device.Work  // the cluster, as Config.OnKernel is told of it; nil before the first time
	packing *packing      // nil unless the kernel packs an input of the graph
	in, out [][]byte
	// overwrites lists the donated inputs that no instruction before this one
	// overwrites.
	overwrites []int
}

// block is a range of the scratch, in bytes.
type block struct{ off, size int64 }

// temp is an argument in the scratch.
type temp struct {
	arg *[]byte
	block
}

// program is a plan as instructions. It is used in the device's turn only.
type program struct {
	code      []instr
	inArgs    [][]*[]byte // per input: the arguments that are its memory
	outArgs   [][]*[]byte // per output, likewise; none for outputs that alias
	temps     []temp
	tempBytes int64 // of temporaries; the kernels' scratch follows them
	bytes     int64 // of temporaries and the kernels' scratch

	checkFinite bool // fail when a kernel writes NaN or Inf
	onKernel    func(device.KernelSpan)
	wantKernels func() bool

	// The memory to which the arguments are bound now: its first byte.
	boundIn, boundOut []*byte
	boundTemps        *byte
	scratch           []byte // of the kernels
}

// point binds the arguments to buffers and to the scratch. It leaves those whose
// memory is where it was at the last call. out[k] is nil if output k aliases an
// input; temps is nil if none are needed.
func (p *program) point(in, out []*buffer, temps *buffer) {
	for j, b := range in {
		if at := unsafe.SliceData(b.data); p.boundIn[j] != at {
			p.boundIn[j] = at
			assign(p.inArgs[j], b.data)
		}
	}
	for k, b := range out {
		if b == nil {
			continue
		}
		if at := unsafe.SliceData(b.data); p.boundOut[k] != at {
			p.boundOut[k] = at
			assign(p.outArgs[k], b.data)
		}
	}
	if temps == nil || p.boundTemps == unsafe.SliceData(temps.data) {
		return
	}
	p.boundTemps = unsafe.SliceData(temps.data)
	for _, t := range p.temps {
		*t.arg = temps.data[t.off : t.off+t.size : t.off+t.size]
	}
	p.scratch = temps.data[p.tempBytes:p.bytes:p.bytes]
}

// assign sets arguments to the same memory.
func assign(args []*[]byte, data []byte) {
	for _, a := range args {
		*a = data
	}
}
