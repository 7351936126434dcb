package partition

import (
	"cmp"
	"slices"

	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/internal/stop"
)

// shareUpdates divides the update among replicas: parameters, in ranges or whole by
// the bytes that their updates change; then tensors that lead there, and the sums that
// all these read; then nodes that reduce such a tensor to numbers. All else is for the
// first replica.
func shareUpdates(idx *index, pl *placement, sh sharding) *shares {
	s := sharer{&shares{node: make([]int, idx.ids), sum: make([]int, len(idx.g.Values))}}
	placed := newMarks(idx.ids)
	s.shareParameters(idx, pl, sh, placed)
	for i := range idx.updates {
		n := idx.updates[len(idx.updates)-1-i]
		if !placed.has(n.ID) && !scalars(n.Out) {
			s.follow(idx, n, placed)
		}
	}
	for _, n := range stop.Each(idx.stop, idx.updates) {
		for _, v := range n.In {
			if placed.has(n.ID) && v.Kind == graph.Summed {
				s.sum[v.ID] = s.node[n.ID]
			}
		}
	}
	for _, n := range stop.Each(idx.stop, idx.updates) {
		if !placed.has(n.ID) {
			s.reduce(n)
		}
	}
	return s.shares
}

// sharer fills in the replicas of the update's nodes.
type sharer struct{ *shares }

// shareParameters places the nodes that update parameters, each where the fewest bytes
// are changed so far. Those in ranges are where their ranges are joined.
func (s sharer) shareParameters(idx *index, pl *placement, sh sharding, placed marks) {
	load := make([][]int64, pl.groups) // bytes by replica
	for i := range load {
		load[i] = make([]int64, sh.replicas)
	}
	for _, n := range largestFirst(idx) {
		at := load[pl.node[n.ID]]
		placed.add(n.ID)
		if sh.has(n) {
			elems := n.In[0].Meta.Elems()
			for r := range at {
				at[r] += changed(idx, n) / int64(elems) * int64(sh.begin(r+1, elems)-sh.begin(r, elems))
			}
			s.node[n.ID] = sh.home[n.In[0].Name]
			continue
		}
		least := slices.Index(at, slices.Min(at))
		at[least] += changed(idx, n)
		s.node[n.ID] = least
	}
}

// largestFirst lists the nodes that update parameters.
func largestFirst(idx *index) (list []*graph.Node) {
	for _, n := range stop.Each(idx.stop, idx.updates) {
		if slices.ContainsFunc(n.Out, func(v *graph.Value) bool { h := idx.variable[v.ID]; return h != nil && h.Role == graph.Parameter }) {
			list = append(list, n)
		}
	}
	slices.SortStableFunc(list, func(a, b *graph.Node) int { return cmp.Compare(changed(idx, b), changed(idx, a)) })
	return list
}

// changed is the bytes of the variables that a node changes.
func changed(idx *index, n *graph.Node) (bytes int64) {
	for _, v := range n.Out {
		if idx.variable[v.ID] != nil {
			bytes += v.Meta.Bytes()
		}
	}
	return bytes
}

// follow puts a node where its readers are, if they agree.
func (s sharer) follow(idx *index, n *graph.Node, placed marks) {
	at := newAgreement()
	for _, v := range n.Out {
		for _, r := range idx.readers[v.ID] {
			if placed.has(r.ID) {
				at.add(s.node[r.ID])
			}
		}
	}
	if at.state == 1 {
		s.node[n.ID] = at.group
		placed.add(n.ID)
	}
}

// reduce puts a node where the first tensor that it reads is.
func (s sharer) reduce(n *graph.Node) {
	for _, v := range n.In {
		switch {
		case scalar(v):
		case v.Kind == graph.Summed:
			s.node[n.ID] = s.sum[v.ID]
			return
		case v.Kind == graph.Computed && v.Node.Phase == graph.Update:
			s.node[n.ID] = s.node[v.Node.ID]
			return
		}
	}
}
