package partition

import (
	"fmt"
	"math/rand/v2"
	"slices"

	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/engine/ops/ref"
	"github.com/berth-ml/berth/engine/shape"
)

// state is the contents of variables by name.
type state map[string]ref.Array

// feeds is the contents of inputs: per microbatch, by name.
type feeds []map[string]ref.Array

func randomArray(r *rand.Rand, m shape.Meta) ref.Array {
	a := ref.New(m)
	for i := range a.F {
		a.F[i] = r.NormFloat64()
	}
	return a
}

// start makes contents for a graph's variables and inputs.
func start(g *graph.Graph, microbatches int, seed uint64) (state, feeds) {
	r := rand.New(rand.NewPCG(seed, 1))
	vars := state{}
	for _, v := range g.Vars {
		vars[v.Name] = ref.New(v.Meta)
		if v.Role == graph.Parameter {
			vars[v.Name] = randomArray(r, v.Meta)
		}
	}
	in := make(feeds, microbatches)
	for m := range in {
		in[m] = map[string]ref.Array{}
		for _, v := range g.Inputs {
			in[m][v.Name] = randomArray(r, v.Meta)
			for i := range in[m][v.Name].I { // rows of a table, classes, counts: all small
				in[m][v.Name].I[i] = int32((3*m + i) % 7)
			}
		}
	}
	return vars, in
}

// runWhole runs a step of the uncut graph, for the expected results.
func runWhole(g *graph.Graph, vars state, in feeds, r Reduction) (state, error) {
	return runMixedWhole(g, g, vars, in, r)
}

// runMixedWhole is runWhole with another graph for the last microbatch and the update.
func runMixedWhole(g, last *graph.Graph, vars state, in feeds, r Reduction) (state, error) {
	parts := make([][]ref.Array, len(g.Accums))
	var vals map[*graph.Value]ref.Array
	for m := range in {
		if m == len(in)-1 {
			g = last
		}
		vals = map[*graph.Value]ref.Array{}
		if err := runNodes(g.Nodes, false, vals, vars, in[m]); err != nil {
			return nil, err
		}
		for i, a := range g.Accums {
			parts[i] = append(parts[i], vals[a.Part])
		}
	}
	for i, a := range g.Accums {
		sum, err := sumOf(a.Add, parts[i], r)
		if err != nil {
			return nil, err
		}
		vals[a.Sum] = sum
	}
	if err := runNodes(g.Nodes, true, vals, vars, nil); err != nil {
		return nil, err
	}
	after := state{}
	for name, a := range vars {
		after[name] = a
	}
	for _, a := range g.Assigns {
		after[a.Var.Name] = vals[a.New]
	}
	return after, nil
}

// sumOf adds parts, by the tree from its root down.
func sumOf(add graph.Op, parts []ref.Array, r Reduction) (ref.Array, error) {
	n := len(parts)
	if n == 1 {
		return parts[0], nil
	}
	left := n - 1
	if r == ReduceTree {
		for left = 1; 2*left < n; left *= 2 {
		}
	}
	x, err := sumOf(add, parts[:left], r)
	if err != nil {
		return x, err
	}
	y, err := sumOf(add, parts[left:], r)
	if err != nil {
		return y, err
	}
	out, err := ref.Run(add, []ref.Array{x, y})
	if err != nil {
		return x, err
	}
	return out[0], nil
}

// runNodes runs the update nodes, or all others.
func runNodes(nodes []*graph.Node, update bool, vals map[*graph.Value]ref.Array, vars state, in map[string]ref.Array) error {
	for _, n := range nodes {
		if (n.Phase == graph.Update) != update {
			continue
		}
		var args []ref.Array
		for _, v := range n.In {
			a, ok := vals[v]
			switch v.Kind {
			case graph.Variable:
				a, ok = vars[v.Name]
			case graph.Input:
				a, ok = in[v.Name]
			}
			if !ok {
				return fmt.Errorf("%v reads %s, which is not there", n, v.Name)
			}
			args = append(args, a)
		}
		out, err := ref.Run(n.Op, args)
		if err != nil {
			return err
		}
		for i, v := range n.Out {
			vals[v] = out[i]
		}
	}
	return nil
}

// instance is the key that residency would use.
type instance struct {
	name       string
	microbatch int
}

// machine runs a plan's segments one by one, as an executor would: it keeps
// instances by identity, fails to read a missing one, and drops those that
// the plan frees.
type machine struct {
	plan *Plan
	mem  map[instance]ref.Array
	seen map[string]bool // everything that ever was in memory
	most int             // sums of one value at once
}

func newMachine(p *Plan, vars state, in feeds) *machine {
	k := &machine{plan: p, mem: map[instance]ref.Array{}, seen: map[string]bool{}}
	for name, a := range vars {
		k.mem[instance{name, 0}] = a
	}
	used := map[*graph.Value]bool{}
	for _, s := range p.Segments {
		for _, v := range s.First.Graph.Inputs {
			used[v] = true
		}
	}
	for m := range in {
		for _, v := range p.Graph.Inputs {
			if used[v] {
				k.mem[instance{v.Name, m}] = in[m][v.Name]
			}
		}
	}
	return k
}

func keyOf(i Instance) instance { return instance{i.Value.Name, i.Microbatch} }

// run runs one launch.
func (k *machine) run(l *Launch) error {
	v, vals := l.Variant, map[*graph.Value]ref.Array{}
	for i, in := range v.Graph.Inputs {
		key := keyOf(l.Needs[l.In[i]].Instance)
		a, ok := k.mem[key]
		if !ok {
			return fmt.Errorf("%s reads %v, which is not there", l.Name(), key)
		}
		vals[in] = a
	}
	if err := k.runInPlace(l.Name(), v, vals); err != nil {
		return err
	}
	for i, out := range v.Graph.Outputs {
		a, ok := vals[out]
		if !ok {
			return fmt.Errorf("%s does not make its output %s", l.Name(), out.Name)
		}
		key := keyOf(l.Needs[l.Out[i]].Instance)
		k.mem[key] = a
		k.seen[key.name] = true
	}
	k.countSums(l)
	for _, n := range l.Over {
		key := keyOf(l.Needs[n].Instance)
		if _, ok := k.mem[key]; !ok {
			return fmt.Errorf("%s frees %v, which is not there", l.Name(), key)
		}
		delete(k.mem, key)
	}
	return nil
}

// countSums counts the partial sums of what a launch has added to.
func (k *machine) countSums(l *Launch) {
	for _, s := range l.Variant.Out {
		n := 0
		for m := 0; s.Value.Kind == graph.Summed && m <= l.Microbatch; m++ {
			if _, ok := k.mem[instance{s.Value.Name, m}]; ok {
				n++
			}
		}
		k.most = max(k.most, n)
	}
}

// runInPlace runs a variant's nodes. An input whose memory an output takes
// over is gone once the output is made.
func (k *machine) runInPlace(name string, v *Variant, vals map[*graph.Value]ref.Array) error {
	for _, n := range v.Graph.Nodes {
		var args []ref.Array
		for _, in := range n.In {
			a, ok := vals[in]
			if !ok {
				return fmt.Errorf("%s: %v reads %s, which is not there or was overwritten", name, n, in.Name)
			}
			args = append(args, a)
		}
		out, err := ref.Run(n.Op, args)
		if err != nil {
			return err
		}
		for i, o := range n.Out {
			vals[o] = out[i]
			for j, made := range v.Graph.Outputs {
				if made == o && v.Alias[j] >= 0 {
					delete(vals, v.Graph.Inputs[v.Alias[j]])
				}
			}
		}
	}
	return nil
}

// runStep runs the launches of a step.
func (k *machine) runStep(o StepOptions) (state, error) {
	launches, err := k.plan.Launches(o)
	if err != nil {
		return nil, err
	}
	for i := range launches {
		if err := k.run(&launches[i]); err != nil {
			return nil, err
		}
	}
	after := state{}
	for _, v := range k.plan.Graph.Vars {
		after[v.Name] = k.mem[instance{v.Name, 0}]
	}
	return after, nil
}

// left lists the instances that remain besides variables and constants of a
// microbatch.
func (k *machine) left() []string {
	stay := map[string]bool{}
	for _, v := range k.plan.Graph.Vars {
		stay[v.Name] = true
	}
	for _, v := range k.plan.Graph.Inputs {
		stay[v.Name] = v.PerMicrobatch
	}
	var names []string
	for key := range k.mem {
		if !stay[key.name] {
			names = append(names, fmt.Sprint(key))
		}
	}
	slices.Sort(names)
	return names
}

// differ names the first variable, in order, that is not the same bit for bit.
func differ(want, got state) string {
	var names []string
	for n := range want {
		names = append(names, n)
	}
	slices.Sort(names)
	for _, n := range names {
		if !slices.Equal(want[n].F, got[n].F) || !slices.Equal(want[n].I, got[n].I) {
			return fmt.Sprintf("%s is %v, want %v", n, got[n], want[n])
		}
	}
	return ""
}

// runMixed runs a step of three microbatches, the last by q's segments.
func runMixed(p, q *Plan) (state, error) {
	vars, in := start(p.Graph, 3, 5)
	_, last := start(q.Graph, 3, 6)
	in[2] = last[2]
	return newMachine(p, vars, in).runStep(StepOptions{Microbatches: 3, Tail: q})
}
