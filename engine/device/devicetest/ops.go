package devicetest

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/berth-ml/berth/engine/device"
	"github.com/berth-ml/berth/engine/graph"
)

// testOpByOp: the ops of a random graph give the same bits one by one as compiled
// together.
func testOpByOp(t *testing.T, open Opener) {
	with(t, open, device.OpenOptions{Threads: 2, MemoryBytes: 1 << 22}, func(r *rig) {
		rapid.Check(t, func(rt *rapid.T) {
			g := randomGraph(rt)
			if err := r.compareOps(rt, g); err != nil {
				rt.Fatalf("%v\n%v", err, g.Nodes)
			}
		})
	})
}

// compareOps runs a graph compiled whole, and op by op.
func (r *rig) compareOps(rt *rapid.T, g *graph.Graph) error {
	x, err := r.d.Compile(g, device.CompileOptions{})
	if err != nil {
		return err
	}
	defer x.Release()
	at := map[*graph.Value]device.Buffer{}
	var in, out []device.Buffer
	for _, v := range g.Inputs {
		at[v] = r.upload(rapid.SliceOfN(rapid.Float32Range(-1, 1), v.Meta.Elems(), v.Meta.Elems()).Draw(rt, v.Name), v.Meta.Shape...)
		in = append(in, at[v])
	}
	for _, v := range g.Outputs {
		out = append(out, r.alloc(v.Meta))
	}
	r.launch(x, in, out)
	for _, n := range g.Nodes {
		if err := r.runOp(n, at); err != nil {
			return err
		}
	}
	for k, v := range g.Outputs {
		if !r.computes() {
			break
		}
		whole, one := r.get(out[k]), r.get(at[v])
		if !sameBits(whole, one) {
			return fmt.Errorf("output %d (%v) is %v, op by op %v", k, v, whole, one)
		}
	}
	r.sync(r.s)
	for _, b := range at {
		r.drop(b)
	}
	r.drop(out...)
	return nil
}

// runOp runs one node, with its inputs in buffers, to which it adds its outputs.
func (r *rig) runOp(n *graph.Node, at map[*graph.Value]device.Buffer) error {
	b := graph.NewBuilder("op", 1)
	ins := map[*graph.Value]*graph.Value{}
	var args []*graph.Value
	var in, out []device.Buffer
	for _, v := range n.In {
		if ins[v] == nil {
			ins[v] = b.Input(fmt.Sprint("in", len(ins)), v.Meta)
			in = append(in, at[v])
		}
		args = append(args, ins[v])
	}
	for i, v := range b.Apply(n.Op, args...) {
		b.Output(fmt.Sprint("out", i), v)
		at[n.Out[i]] = r.alloc(v.Meta)
		out = append(out, at[n.Out[i]])
	}
	g, err := b.Graph()
	if err != nil {
		return err
	}
	x, err := r.d.Compile(g, device.CompileOptions{})
	if err != nil {
		return err
	}
	r.launch(x, in, out)
	x.Release()
	return nil
}

// sameBits reports whether two lists of numbers are the same, bit for bit.
func sameBits(a, b []float32) bool {
	return slices.EqualFunc(a, b, func(x, y float32) bool { return math.Float32bits(x) == math.Float32bits(y) })
}
