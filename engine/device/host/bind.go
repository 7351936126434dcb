package host

import (
	"fmt"
	"slices"

	"github.com/berth-ml/berth/engine/device"
	"github.com/berth-ml/berth/engine/device/planner"
	"github.com/berth-ml/berth/engine/fuse"
	"github.com/berth-ml/berth/internal/stop"
)

// bindPlan makes a program of a plan, with kernels from bind.
func bindPlan(p *planner.Plan, o device.CompileOptions, bind func(*fuse.Cluster) (Kernel, error)) (*program, error) {
	stopped := stop.When(o.Stop)
	inputs, outputs := len(p.Graph.Inputs), len(p.Graph.Outputs)
	pr := &program{graph: p.Graph, tempBytes: p.TempBytes, code: make([]instr, 0, len(p.Steps)),
		inArgs: make([][]*[]byte, inputs), outArgs: make([][]*[]byte, outputs),
		boundIn: slices.Repeat([]int64{-1}, inputs), boundOut: slices.Repeat([]int64{-1}, outputs), boundTemps: -1}
	var scratch int64 // of the kernel that needs most
	for i := range stop.Each(stopped, p.Steps) {
		st := &p.Steps[i]
		if st.Empty() {
			continue
		}
		in := instr{step: st, cluster: st.Cluster, in: make([][]byte, len(st.In)), out: make([][]byte, len(st.Out))}
		in.when = make([][]byte, len(st.When))
		if c := st.Cluster; c != nil {
			var err error
			if in.kernel, err = bind(c); err != nil {
				return nil, fmt.Errorf("%s: %w", c.Describe(), err)
			}
			in.packing = packingOf(in.kernel, st)
			scratch = max(scratch, in.kernel.ScratchBytes())
		}
		for a, s := range st.In {
			pr.connect(p, s, &in.in[a])
		}
		for g, guard := range st.When {
			pr.connect(p, guard.Storage, &in.when[g])
		}
		for a, s := range st.Out {
			pr.connect(p, s, &in.out[a])
		}
		pr.code = append(pr.code, in)
	}
	pr.bytes = p.TempBytes + scratch
	return pr, stopped.Err()
}

// connect files an argument under the memory that its storage is.
func (pr *program) connect(p *planner.Plan, s *planner.Storage, arg *[]byte) {
	switch j := s.Overwrites(p.Alias); {
	case s.Class == planner.Temporary:
		pr.temps = append(pr.temps, temp{arg, block{s.Off, s.Size}})
	case j >= 0:
		pr.inArgs[j] = append(pr.inArgs[j], arg)
	case s.Class == planner.Output:
		pr.outArgs[s.Index] = append(pr.outArgs[s.Index], arg)
	default:
		pr.inArgs[s.Index] = append(pr.inArgs[s.Index], arg)
	}
}

// packing is a kernel that packs one input of the graph.
type packing struct {
	Packer
	index  int    // of the graph's input
	layout string // of the copy
	bytes  int64  // of the copy
}

// packingOf is the packing of a kernel that packs an input of the graph; nil for
// other kernels.
func packingOf(kernel Kernel, st *planner.Step) *packing {
	k, ok := kernel.(Packer)
	if !ok {
		return nil
	}
	input, bytes, layout := k.Packs()
	if bytes == 0 || st.In[input].Class != planner.Input {
		return nil
	}
	return &packing{Packer: k, index: st.In[input].Index, layout: layout, bytes: bytes}
}
