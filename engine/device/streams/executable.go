package streams

import (
	"crypto/sha256"
	"fmt"
	"slices"

	"github.com/berth-ml/berth/engine/device"
	"github.com/berth-ml/berth/engine/device/planner"
	"github.com/berth-ml/berth/engine/fuse"
	"github.com/berth-ml/berth/engine/graph"
)

// executable implements device.Executable.
type executable struct {
	routine
	signature string
	memory    device.Memory
	owner     *Device
	users     int // calls of Compile without a Release; under cache.mu
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
func (b *base) newExecutable(g *graph.Graph, o device.CompileOptions) (*executable, error) {
	p, err := planner.New(g, o, planner.Options{Align: alignment, Alone: b.config.Alone})
	if err != nil {
		return nil, err
	}
	x := &executable{memory: memoryOf(g, p.Alias)}
	x.routine = routine{heap: b.heap, turn: &b.turn, graph: g, alias: p.Alias, donated: make([]bool, len(g.Inputs))}
	for _, j := range p.Alias {
		if j >= 0 {
			x.donated[j] = true
		}
	}
	x.memory.Temporary = p.TempBytes
	if b.config.Bind != nil {
		if x.program, err = b.config.Bind(p, o); err != nil {
			return nil, err
		}
		x.memory.Temporary = x.program.ScratchBytes()
	}
	x.setMarks(p.Marks())
	x.scratch = x.memory.Temporary
	return x, nil
}

// setMarks notes which outputs are complete at each mark.
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
