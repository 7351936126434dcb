package divide

import (
	"cmp"
	"slices"

	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/internal/stop"
	"github.com/berth-ml/berth/partition/nodes"
	"github.com/berth-ml/berth/partition/place"
)

// Share divides the update among replicas: parameters, in ranges or whole, as sh
// says; then tensors that lead there, and the sums that
// all these read; then nodes that reduce such a tensor to numbers. All else is for the
// first replica.
func Share(idx *nodes.Index, sh Shards) *place.Shares {
	s := sharer{&place.Shares{Node: make([]int, idx.IDs), Sum: make([]int, len(idx.Graph.Values))}}
	placed := nodes.NewMarks(idx.IDs)
	s.shareParameters(idx, sh, placed)
	for i := range idx.Updates {
		n := idx.Updates[len(idx.Updates)-1-i]
		if !placed.Has(n.ID) && !nodes.Scalars(n.Out) {
			s.follow(idx, n, placed)
		}
	}
	for _, n := range stop.Each(idx.Stop, idx.Updates) {
		for _, v := range n.In {
			if placed.Has(n.ID) && v.Kind == graph.Summed {
				s.Sum[v.ID] = s.Node[n.ID]
			}
		}
	}
	for _, n := range stop.Each(idx.Stop, idx.Updates) {
		if !placed.Has(n.ID) {
			s.reduce(n)
		}
	}
	return s.Shares
}

// sharer fills in the replicas of the update's nodes. A call of [Share] owns it, and gives its
// shares away.
type sharer struct{ *place.Shares }

// shareParameters places the nodes that update parameters. Those in ranges are where their ranges are joined.
func (s sharer) shareParameters(idx *nodes.Index, sh Shards, placed nodes.Marks) {
	for _, n := range largestFirst(idx) {
		placed.Add(n.ID)
		if s.Node[n.ID] = sh.whole[n.ID]; sh.has(n) {
			s.Node[n.ID] = sh.home[n.In[0].Name]
		}
	}
}

// largestFirst lists the nodes that update parameters.
func largestFirst(idx *nodes.Index) (list []*graph.Node) {
	for _, n := range stop.Each(idx.Stop, idx.Updates) {
		if slices.ContainsFunc(n.Out, func(v *graph.Value) bool { h := idx.Variable[v.ID]; return h != nil && h.Role == graph.Parameter }) {
			list = append(list, n)
		}
	}
	slices.SortStableFunc(list, func(a, b *graph.Node) int { return cmp.Compare(changed(idx, b), changed(idx, a)) })
	return list
}

// changed is the bytes of the variables that a node changes.
func changed(idx *nodes.Index, n *graph.Node) (bytes int64) {
	for _, v := range n.Out {
		if idx.Variable[v.ID] != nil {
			bytes += v.Meta.Bytes()
		}
	}
	return bytes
}

// follow puts a node where its readers are, if they agree.
func (s sharer) follow(idx *nodes.Index, n *graph.Node, placed nodes.Marks) {
	at := place.NewAgreement()
	for _, v := range n.Out {
		for _, r := range idx.Readers[v.ID] {
			if placed.Has(r.ID) {
				at.Add(s.Node[r.ID])
			}
		}
	}
	if at.State == 1 {
		s.Node[n.ID] = at.Group
		placed.Add(n.ID)
	}
}

// reduce puts a node where the first tensor that it reads is.
func (s sharer) reduce(n *graph.Node) {
	for _, v := range n.In {
		switch {
		case nodes.Scalar(v):
		case v.Kind == graph.Summed:
			s.Node[n.ID] = s.Sum[v.ID]
			return
		case v.Kind == graph.Computed && v.Node.Phase == graph.Update:
			s.Node[n.ID] = s.Node[v.Node.ID]
			return
		}
	}
}
