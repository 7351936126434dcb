package host

import (
	"fmt"

	"github.com/berth-ml/berth/engine/fuse"
	"github.com/berth-ml/berth/internal/stop"
)

// bindPlan makes a program of a plan, with kernels from bind.
func bindPlan(p *plan, bind func(*fuse.Cluster) (Kernel, error)) (*program, error) {
	inputs, outputs := len(p.graph.Inputs), len(p.graph.Outputs)
	pr := &program{tempBytes: p.tempBytes, code: make([]instr, 0, len(p.steps)),
		inArgs: make([][]*[]byte, inputs), outArgs: make([][]*[]byte, outputs),
		boundIn: make([]*byte, inputs), boundOut: make([]*byte, outputs)}
	overwritten := make([]bool, inputs)
	var scratch int64 // of the kernel that needs most
	for i := range stop.Each(p.stop, p.steps) {
		st := &p.steps[i]
		if st.empty() {
			continue
		}
		in := instr{cluster: st.cluster, in: make([][]byte, len(st.in)), out: make([][]byte, len(st.out))}
		if c := st.cluster; c != nil {
			var err error
			if in.kernel, err = bind(c); err != nil {
				return nil, fmt.Errorf("%s: %w", describe(c), err)
			}
			in.packing = packingOf(in.kernel, st)
			scratch = max(scratch, in.kernel.ScratchBytes())
		}
		for a, s := range st.in {
			pr.connect(p, s, &in.in[a])
		}
		for a, s := range st.out {
			pr.connect(p, s, &in.out[a])
			if j := s.overwrites(p.alias); j >= 0 && !overwritten[j] {
				overwritten[j] = true
				in.overwrites = append(in.overwrites, j)
			}
		}
		pr.code = append(pr.code, in)
	}
	pr.bytes = p.tempBytes + scratch
	return pr, p.stop.Err()
}

// connect files an argument under the memory that its storage is.
func (pr *program) connect(p *plan, s *storage, arg *[]byte) {
	switch j := s.overwrites(p.alias); {
	case s.class == ofTemp:
		pr.temps = append(pr.temps, temp{arg, block{s.off, s.size}})
	case j >= 0:
		pr.inArgs[j] = append(pr.inArgs[j], arg)
	case s.class == ofOutput:
		pr.outArgs[s.index] = append(pr.outArgs[s.index], arg)
	default:
		pr.inArgs[s.index] = append(pr.inArgs[s.index], arg)
	}
}

// packingOf is the packing of a kernel that packs an input of the graph; nil for
// other kernels.
func packingOf(kernel Kernel, st *step) *packing {
	k, ok := kernel.(Packer)
	if !ok {
		return nil
	}
	input, bytes, layout := k.Packs()
	if bytes == 0 || st.in[input].class != ofInput {
		return nil
	}
	return &packing{Packer: k, index: st.in[input].index, layout: layout, bytes: bytes}
}
