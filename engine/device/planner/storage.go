package planner

import (
	"slices"

	"github.com/berth-ml/berth/engine/fuse"
)

// Class tells whose memory a storage is.
type Class uint8

const (
	Input     Class = iota // the caller's buffer of an input
	Output                 // the caller's buffer of an output
	Temporary              // the scratch region of a launch
)

// Storage is the memory of one value or of several: of a value and its
// reshapes, or of values computed in place.
type Storage struct {
	Class Class
	Index int   // of the graph's input or output; 0 for temporaries
	Size  int64 // bytes
	Off   int64 // of temporaries: offset in the scratch region, in bytes

	writer      int      // the step that writes it, before steps are ordered
	first, last int      // of temporaries: the steps that write it first and use it last
	in          *Storage // of temporaries: another one in whose memory it is computed; nil if it has its own
	room        int64    // of temporaries: Size as a multiple of the alignment
}

// end is the least offset at which another storage may begin.
func (s *Storage) end() int64 { return s.Off + s.room }

// Overwrites is the donated input whose memory the storage is, given the
// plan's alias; -1 if there is none.
func (s *Storage) Overwrites(alias []int) int {
	if s.Class != Output {
		return -1
	}
	return alias[s.Index]
}

// Guard is a guard of a step: the step runs only where the first number of Storage is not 0
// or, with Else, where it is 0.
type Guard struct {
	*Storage
	Else bool
}

// Step is one kernel of a plan, or a copy if Cluster is nil.
type Step struct {
	Cluster *fuse.Cluster
	In, Out []*Storage
	When    []Guard // the cluster's: where one is not met, the step must not run

	Reads      []int // inputs that no step before reads
	Overwrites []int // donated inputs that no step before overwrites
	Completes  []int // outputs with memory of their own that are complete after the step, before the last one
}

// reads lists all storages that the step reads.
func (st *Step) reads() []*Storage {
	if len(st.When) == 0 {
		return st.In
	}
	all := slices.Clone(st.In)
	for _, guard := range st.When {
		all = append(all, guard.Storage)
	}
	return all
}

// alias lists the inputs in whose memory output o may be computed.
func (st *Step) alias(o int) []int {
	if st.Cluster == nil {
		return nil
	}
	return st.Cluster.Alias[o]
}

// ends tells whether the step may end the launch on purpose.
func (st *Step) ends() bool {
	return st.Cluster != nil && slices.ContainsFunc(st.Cluster.Nodes, fuse.Ends)
}

// Empty tells whether all outputs of the step are empty.
func (st *Step) Empty() bool {
	return !slices.ContainsFunc(st.Out, func(s *Storage) bool { return s.Size > 0 })
}
