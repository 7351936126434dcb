package divide

import "github.com/berth-ml/berth/engine/graph"

// Shards says which parameters replicas update in ranges, one each. The zero value
// says none: each parameter has a replica that updates all of it.
type Shards struct {
	replicas int
	Unit     int            // ranges begin at multiples of so many elements: a multiple of ops.SumElems
	home     map[string]int // by the parameter's name: the replica that joins its ranges
}

// On reports whether any parameter is updated in ranges.
func (s Shards) On() bool { return len(s.home) > 0 }

// has reports whether an update node's parameter is updated in ranges.
func (s Shards) has(n *graph.Node) bool {
	if !s.On() || n.Phase != graph.Update || len(n.In) == 0 || n.In[0].Kind != graph.Variable {
		return false
	}
	_, has := s.home[n.In[0].Name]
	return has
}

// begin is the first element of a replica's range of a tensor: the multiple of the
// unit that is nearest to an equal share.
func (s Shards) begin(replica, elems int) int {
	if replica == s.replicas {
		return elems
	}
	units := (2*replica*elems/s.replicas + s.Unit) / (2 * s.Unit)
	return min(elems, units*s.Unit)
}

// shardRange is a range of a tensor and the replica that updates it.
type shardRange struct{ from, count, replica int }

// ranges cuts the range of each replica into pieces of at most so many elements; 0
// leaves it whole.
func (s Shards) ranges(elems, most int) (list []shardRange) {
	for r := range s.replicas {
		from, end := s.begin(r, elems), s.begin(r+1, elems)
		size := most
		if size == 0 {
			size = elems
		}
		for ; from < end; from += size {
			list = append(list, shardRange{from, min(size, end-from), r})
		}
	}
	return list
}
