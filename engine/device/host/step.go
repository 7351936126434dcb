package host

import (
	"fmt"
	"slices"

	"github.com/berth-ml/berth/engine/fuse"
	"github.com/berth-ml/berth/engine/graph"
)

// class tells whose memory a storage is.
type class uint8

const (
	ofInput  class = iota // the caller's buffer of an input
	ofOutput              // the caller's buffer of an output
	ofTemp                // the device's scratch region
)

// storage is the memory of one value or of several: of a value and its
// reshapes, or of values computed in place.
type storage struct {
	class class
	index int   // of the graph's input or output
	size  int64 // bytes

	writer      int      // the step that writes it, before steps are ordered
	first, last int      // of temporaries: the steps that write it first and use it last
	in          *storage // of temporaries: another one in whose memory it is computed; nil if it has its own
	off         int64    // of temporaries: offset in the scratch region, in bytes
}

// end is the least offset at which another storage may begin.
func (s *storage) end() int64 { return s.off + roundUp(s.size, alignment) }

// overwrites is the donated input whose memory the storage is, given the
// plan's alias; -1 if there is none.
func (s *storage) overwrites(alias []int) int {
	if s.class != ofOutput {
		return -1
	}
	return alias[s.index]
}

// step is one kernel of a plan, or a copy if cluster is nil.
type step struct {
	cluster *fuse.Cluster
	in, out []*storage
}

// alias lists the inputs in whose memory output o may be computed.
func (st *step) alias(o int) []int {
	if st.cluster == nil {
		return nil
	}
	return st.cluster.Alias[o]
}

// ends tells whether the step may end the launch on purpose.
func (st *step) ends() bool {
	return st.cluster != nil && slices.ContainsFunc(st.cluster.Nodes, fuse.Ends)
}

// empty tells whether all outputs of the step are empty.
func (st *step) empty() bool {
	return !slices.ContainsFunc(st.out, func(s *storage) bool { return s.size > 0 })
}

// describe names a cluster for an error: its line and layer, and its ops.
func describe(c *fuse.Cluster) string {
	what, n := c.Name(), c.Nodes[0]
	if len(c.Nodes) == 1 {
		what = graph.OpString(n.Op)
	}
	if n.Layer == nil {
		return what
	}
	if pos := n.Layer.Pos.String(); pos != "" {
		return fmt.Sprintf("%s: %v: %s", pos, n.Layer, what)
	}
	return fmt.Sprintf("%v: %s", n.Layer, what)
}
