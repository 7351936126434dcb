package host

import (
	"fmt"
	"math"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/berth-ml/berth/engine/device"
	"github.com/berth-ml/berth/engine/device/streams"
	"github.com/berth-ml/berth/engine/fuse"
	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/engine/shape"
)

// Run implements [streams.Program].
func (p *program) Run(l *streams.Launch) (err error) {
	p.point(l)
	timed := p.onKernel != nil && (p.wantKernels == nil || p.wantKernels())
	at := 0
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("%s: %v\n%s", p.panicked(at), r, debug.Stack())
		}
	}()
	for at = range p.code {
		in := &p.code[at]
		for _, j := range in.overwrites {
			l.AwaitWrite(j)
		}
		if in.kernel == nil {
			copy(in.out[0], in.in[0])
			continue
		}
		if err := p.runKernel(in, l, timed); err != nil {
			return fmt.Errorf("%s: %w", p.doing(at), err)
		}
		if p.checkFinite {
			if err := nonFinite(in); err != nil {
				return err
			}
		}
	}
	return nil
}

// doing names an instruction for an error.
func (p *program) doing(at int) string {
	if at < len(p.code) && p.code[at].cluster != nil {
		return p.code[at].cluster.Describe()
	}
	return "copy of an output of " + p.graph.Name
}

// panicked says which kernel of an instruction panicked: that of an op which brings it is
// not ours. Of several in one pass, it is not known which.
func (p *program) panicked(at int) string {
	var own []string
	if at < len(p.code) && p.code[at].cluster != nil {
		for _, n := range p.code[at].cluster.Nodes {
			if text := fuse.Describe(n, "the op "+n.Op.Kind()); graph.BringsKernel(n.Op) && !slices.Contains(own, text) {
				own = append(own, text)
			}
		}
	}
	switch len(own) {
	case 0:
		return p.doing(at) + ": BUG: kernel panicked"
	case 1:
		return own[0] + " panicked"
	}
	return "one of these panicked: " + strings.Join(own, "; ")
}

// runKernel runs a kernel, with the packed copy of its input if it packs one.
func (p *program) runKernel(in *instr, l *streams.Launch, timed bool) error {
	k := in.packing
	if k == nil {
		return p.compute(in, l, timed)
	}
	ok := false
	off, made := l.OpenPacked(k.index, k.layout, k.bytes)
	defer func() { l.ClosePacked(ok) }() // also if the kernel panics
	var copy []byte
	if off >= 0 {
		copy = p.arena.bytes(off, k.bytes)
	}
	k.UsePacked(copy, made)
	err := p.compute(in, l, timed)
	ok = err == nil
	return err
}

// compute runs a kernel, and tells its time if anyone asks.
func (p *program) compute(in *instr, l *streams.Launch, timed bool) error {
	if !timed {
		return in.kernel.Run(in.in, in.out, p.scratch)
	}
	if c := in.cluster; in.work == nil {
		in.work = &device.Work{Name: c.Name(), Nodes: c.Nodes, Cost: c.Cost()}
	}
	start := time.Now()
	err := in.kernel.Run(in.in, in.out, p.scratch)
	p.onKernel(device.KernelSpan{Work: in.work, Launch: l.Event(), Start: start, End: time.Now()})
	return err
}

// nonFinite finds the first NaN or Inf among the float outputs of an
// instruction.
func nonFinite(in *instr) error {
	for o, v := range in.cluster.Out {
		if v.Meta.DType != shape.Float32 {
			continue
		}
		if i := firstNonFinite(shape.View[float32](in.out[o])); i >= 0 {
			return &device.NonFiniteError{Node: v.Node, Value: v.Name, Index: i}
		}
	}
	return nil
}

// firstNonFinite is the index of the first NaN or Inf; -1 if there is none. It looks
// at pieces of 16 numbers, whose exponents it adds to: only one that is all ones
// carries into the sign.
func firstNonFinite(x []float32) int {
	const piece = 16
	at := 0
	for ; at+piece <= len(x); at += piece {
		var carry uint32
		for _, f := range (*[piece]float32)(x[at:]) {
			carry |= math.Float32bits(f)&0x7f800000 + 0x00800000
		}
		if carry>>31 != 0 {
			break
		}
	}
	for i, f := range x[at:] {
		if f-f != 0 { // NaN for NaN and for both infinities
			return at + i
		}
	}
	return -1
}
