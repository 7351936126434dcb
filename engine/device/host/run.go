package host

import (
	"fmt"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/berth-ml/berth/engine/device"
	"github.com/berth-ml/berth/engine/device/streams"
	"github.com/berth-ml/berth/engine/fuse"
	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/engine/shape"
	"github.com/berth-ml/berth/internal/panics"
)

// Run implements [streams.Program].
func (p *program) Run(l *streams.Launch) (err error) {
	p.point(l)
	timed := p.times.Wanted()
	at := 0
	defer func() {
		if r := recover(); r != nil {
			err = p.panicked(at, r)
		}
	}()
	for at = range p.code {
		in := &p.code[at]
		if err := l.Await(in.step); err != nil {
			return err
		}
		if in.skipped() {
			l.Completed(in.step)
			continue
		}
		if in.kernel == nil {
			copy(in.out[0], in.in[0])
		} else if err := p.runKernel(in, l, timed); err != nil {
			return fmt.Errorf("%s: %w", p.doing(at), err)
		} else if p.checkFinite {
			if err := p.nonFinite(in); err != nil {
				return err
			}
		}
		l.Completed(in.step)
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

// panicked is the error of a panic in a kernel of an instruction. That of an op which
// brings it is not ours: its line is enough. Of several in one pass, it is not known which.
func (p *program) panicked(at int, recovered any) error {
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
		return fmt.Errorf("%s: BUG: kernel panicked: %v\n%s", p.doing(at), recovered, debug.Stack())
	case 1:
		return fmt.Errorf("%s panicked: %s", own[0], panics.Text(recovered))
	}
	return fmt.Errorf("one of these panicked: %s: %s", strings.Join(own, "; "), panics.Text(recovered))
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
		copy = p.arena.Bytes(off, k.bytes)
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
	start := time.Now()
	err := in.kernel.Run(in.in, in.out, p.scratch)
	p.times.Tell(l, in.cluster, &in.work, start)
	return err
}

// nonFinite is an error about the first NaN or Inf among the float outputs of an
// instruction.
func (p *program) nonFinite(in *instr) error {
	for o, v := range in.cluster.Out {
		if !device.MustBeFinite(v) {
			continue
		}
		x := shape.View[float32](in.out[o])
		if p.finite != nil && p.finite(x) {
			continue
		}
		if i := firstNonFinite(x); i >= 0 {
			return &device.NonFiniteError{Node: v.Node, Value: v.Name, Index: i}
		}
	}
	return nil
}

// firstNonFinite is the index of the first NaN or Inf; -1 if there is none.
func firstNonFinite(x []float32) int {
	return slices.IndexFunc(x, func(f float32) bool { return f-f != 0 })
}
