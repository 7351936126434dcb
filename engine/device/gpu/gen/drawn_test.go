package gen

import (
	"cmp"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"

	"pgregory.net/rapid"

	"github.com/berth-ml/berth/engine/device/cpu/kernels/kernelstest"
	"github.com/berth-ml/berth/engine/fuse"
	"github.com/berth-ml/berth/engine/graph"
)

// trial is a node or a graph of fused nodes, with inputs and kernels.
type trial struct {
	name    string
	in      []*graph.Value
	bytes   [][]byte // of each input
	steps   []step
	planted bool // the kernels have a mistake
}

// step is a cluster of a trial.
type step struct {
	cluster *fuse.Cluster
	calls   []Call // none for a view
	scratch int64
}

// newTrial writes the kernels of clusters.
func newTrial(name string, in []*graph.Value, bytes [][]byte, clusters []*fuse.Cluster) (s trial, err error) {
	s = trial{name: name, in: in, bytes: bytes}
	for _, c := range clusters {
		st := step{cluster: c}
		if !fuse.IsView(c.Nodes[0]) {
			if st.calls, st.scratch, err = Cluster(c); err != nil {
				return s, err
			}
		}
		s.steps = append(s.steps, st)
	}
	return s, nil
}

// calls are all kernels of a trial.
func (s trial) calls() (all []Call) {
	for _, st := range s.steps {
		all = append(all, st.calls...)
	}
	return all
}

// work estimates how long a checker takes, from operations, bytes and lanes.
func (s trial) work() (w int64) {
	for _, st := range s.steps {
		for _, n := range st.cluster.Nodes {
			w += n.Cost().Flops + n.Cost().Bytes
		}
		for _, c := range st.calls {
			lanes, _ := c.Lanes(GroupLanes)
			w += 10 * int64(lanes)
		}
	}
	return w
}

// seeds is how many trials of a kind are drawn.
const seeds = 20

// drawn are trials of a kind of op, the same at each call, by their work. Nodes whose
// inputs do not fit, attributes that no template covers, and nodes without kernels are
// left out.
func drawn(kind string) (trials []trial) {
	one := rapid.Custom(func(t *rapid.T) kernelstest.Sample { return kernelstest.Cases[kind](kernelstest.NewSource(t)) })
	for seed := range seeds {
		drawn := one.Example(seed)
		n, err := kernelstest.NodeOf(drawn.Op, drawn.In)
		if err != nil {
			continue
		}
		var bytes [][]byte
		for _, a := range drawn.In {
			bytes = append(bytes, kernelstest.Load(a).Mem)
		}
		if s, err := newTrial(fmt.Sprint(kind, " ", seed), n.In, bytes, []*fuse.Cluster{fuse.Single(n)}); err == nil {
			trials = append(trials, s)
		}
	}
	return byWork(trials)
}

// drawnFused are trials of graphs of the sort that a number of kernelstest.Fusable draws.
func drawnFused(sort int) (trials []trial) {
	one := rapid.Custom(kernelstest.Fusable[sort])
	for seed := range seeds {
		g := one.Example(seed)
		in := kernelstest.Inputs(g, rand.New(rand.NewPCG(uint64(seed), 1)))
		var bytes [][]byte
		for _, v := range g.Inputs {
			bytes = append(bytes, in[v])
		}
		s, err := newTrial(fmt.Sprint("graph ", sort, " ", seed), g.Inputs, bytes, fuse.Cut(g, nil).Clusters)
		if err == nil {
			trials = append(trials, s)
		}
	}
	return byWork(trials)
}

func byWork(trials []trial) []trial {
	trials = slices.DeleteFunc(trials, func(s trial) bool { return len(s.calls()) == 0 })
	slices.SortStableFunc(trials, func(a, b trial) int { return cmp.Compare(a.work(), b.work()) })
	return trials
}

// drawnOfAll are trials of each kind of op, and of fused graphs: of each, those with the
// most work that is allowed, or the one with the least, at most each.
func drawnOfAll(each int, work int64) (trials []trial) {
	add := func(all []trial) {
		n := 0
		for n < len(all) && all[n].work() <= work {
			n++
		}
		n = min(max(n, 1), len(all))
		trials = append(trials, all[max(0, n-each):n]...)
	}
	for _, kind := range Kinds() {
		add(drawn(kind))
	}
	for sort := range kernelstest.Fusable[1:] {
		add(drawnFused(sort + 1))
	}
	return trials
}

// kernelsOf are the kernels of trials, each kernel once, by name.
func kernelsOf(trials []trial) []Call {
	byName := map[string]Call{}
	for _, s := range trials {
		for _, c := range s.calls() {
			byName[c.Name] = c
		}
	}
	return slices.SortedFunc(maps.Values(byName), func(a, b Call) int { return strings.Compare(a.Name, b.Name) })
}
