package kernels

import (
	"math/rand/v2"
	"testing"

	"pgregory.net/rapid"

	"github.com/berth-ml/berth/engine/device/cpu/kernels/kernelstest"
	"github.com/berth-ml/berth/engine/device/cpu/kernels/work"
	"github.com/berth-ml/berth/engine/fuse"
	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/engine/ops"
	"github.com/berth-ml/berth/engine/shape"
)

// runCuts runs clusters one after the other, each in place where place says so,
// and returns the graph's outputs.
func runCuts(t kernelstest.Failer, on work.Target, g *graph.Graph, cuts *fuse.Cuts, in map[*graph.Value][]byte, p work.Pool, place func() bool) [][]byte {
	t.Helper()
	at := map[*graph.Value][]byte{}
	for v, b := range in {
		at[v] = b
	}
	for _, c := range cuts.Clusters {
		if fuse.IsView(c.Nodes[0]) {
			at[c.Out[0]] = at[c.In[0]]
			continue
		}
		k, err := NewCluster(c, on)
		if err != nil {
			t.Fatalf("%s: %v", c.Name(), err)
		}
		scratch := kernelstest.NewGuarded(int(k.ScratchBytes()))
		a, used := work.Args{Scratch: scratch.Mem}, []kernelstest.Guarded{scratch}
		for _, v := range c.In {
			m := kernelstest.NewGuarded(len(at[v]))
			copy(m.Mem, at[v])
			a.In, used = append(a.In, m.Mem), append(used, m)
		}
		taken := map[int]bool{}
		for o, v := range c.Out {
			m := kernelstest.NewGuarded(int(v.Meta.Bytes()))
			for _, j := range c.Alias[o] {
				if !taken[j] && len(a.In[j]) == len(m.Mem) && count(c.In, c.In[j]) == 1 && place() {
					m, taken[j] = used[1+j], true
					break
				}
			}
			a.Out, used = append(a.Out, m.Mem), append(used, m)
			at[v] = m.Mem
		}
		if err := k.Run(p, &a); err != nil {
			t.Fatalf("%s: %v", c.Name(), err)
		}
		for _, m := range used {
			if !m.Intact() {
				t.Fatalf("%s wrote outside its memory", c.Name())
			}
		}
	}
	var out [][]byte
	for _, v := range g.Outputs {
		out = append(out, at[v])
	}
	return out
}

func count(vs []*graph.Value, v *graph.Value) int {
	n := 0
	for _, u := range vs {
		if u == v {
			n++
		}
	}
	return n
}

// TestClustersEqualTheirNodes runs random graphs node by node and fused, on
// several threads and in place, and wants the same bits.
func TestClustersEqualTheirNodes(t *testing.T) { rig.EachISA(t, testClusters) }

func testClusters(t *testing.T, r kernelstest.Rig) {
	fused, drawn := 0, 0
	rapid.Check(t, func(t *rapid.T) {
		drawn++
		g := rapid.SampledFrom(kernelstest.Fusable).Draw(t, "sort")(t)
		rng := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 1))
		in := kernelstest.Inputs(g, rng)
		want := runCuts(t, r.On, g, fuse.Alone(g), in, kernelstest.Serial{}, func() bool { return false })
		cuts := fuse.Cut(g, nil)
		fused += len(g.Nodes) - len(cuts.Clusters)
		for threads := 1; threads <= 3; threads++ {
			got := runCuts(t, r.On, g, cuts, in, kernelstest.Shuffled{N: threads, Rng: rng}, func() bool { return rng.IntN(2) == 0 })
			for i, v := range g.Outputs {
				if !kernelstest.SameBits(got[i], want[i]) {
					t.Fatalf("%d threads: %v has other bits when fused:\n%v", threads, v, cuts)
				}
			}
		}
	})
	if fused == 0 && drawn >= 20 { // a few graphs may have nothing to fuse
		t.Errorf("nothing was fused in %d graphs", drawn)
	}
}

// TestClusterAllocatesNothing where it runs.
func TestClusterAllocatesNothing(t *testing.T) {
	b := graph.NewBuilder("test", 1)
	x, w := b.Input("x", shape.F32(100, 50)), b.Input("w", shape.F32(50, 600))
	pre := ops.Add(b, ops.MatMulOf(b, x, w, false, false), b.Input("bias", shape.F32(600)))
	b.Output("y", ops.GeluTanh(b, pre))
	g, err := b.Graph()
	if err != nil {
		t.Fatal(err)
	}
	c := fuse.Cut(g, nil).Clusters[0]
	k, err := NewCluster(c, rig.On)
	if err != nil {
		t.Fatal(err)
	}
	a := work.Args{Scratch: make([]byte, k.ScratchBytes())}
	for _, v := range c.In {
		a.In = append(a.In, kernelstest.NewGuarded(int(v.Meta.Bytes())).Mem)
	}
	for _, v := range c.Out {
		a.Out = append(a.Out, kernelstest.NewGuarded(int(v.Meta.Bytes())).Mem)
	}
	if n := testing.AllocsPerRun(5, func() {
		if err := k.Run(kernelstest.Serial{}, &a); err != nil {
			t.Fatal(err)
		}
	}); n != 0 || c.Name() != "matmul+add+gelu_tanh" {
		t.Errorf("%s allocates %v times", c.Name(), n)
	}
}
