package nodes

import "github.com/berth-ml/berth/engine/graph"

// Table has an entry for some IDs of values or nodes. It forgets them all in
// constant time, so one table serves many stages.
type Table[T any] struct {
	entries []T
	round   []uint32 // in which each entry was set
	now     uint32   // the current round
}

// NewTable makes an empty table for IDs below n.
func NewTable[T any](n int) *Table[T] {
	return &Table[T]{entries: make([]T, n), round: make([]uint32, n), now: 1}
}

// Clear forgets all entries.
func (t *Table[T]) Clear() { t.now++ }

// Has reports whether an ID has an entry.
func (t *Table[T]) Has(id int) bool { return t.round[id] == t.now }

// Get is the entry, or zero if there is none.
func (t *Table[T]) Get(id int) (x T, ok bool) {
	if t.round[id] == t.now {
		return t.entries[id], true
	}
	return x, false
}

// Set gives an ID an entry.
func (t *Table[T]) Set(id int, x T) {
	t.entries[id], t.round[id] = x, t.now
}

// Marks is a set of IDs.
type Marks struct{ *Table[struct{}] }

// NewMarks makes an empty set of IDs below n.
func NewMarks(n int) Marks { return Marks{NewTable[struct{}](n)} }

// Add reports whether the ID is new.
func (m Marks) Add(id int) bool {
	if m.Has(id) {
		return false
	}
	m.Set(id, struct{}{})
	return true
}

// Inputs lists the values that nodes read but do not make, once each, in order of
// first use. It clears seen first.
func Inputs(nodes []*graph.Node, seen Marks) []*graph.Value {
	seen.Clear()
	var in []*graph.Value
	for _, n := range nodes {
		for _, v := range n.In {
			if seen.Add(v.ID) {
				in = append(in, v)
			}
		}
		for _, v := range n.Out {
			seen.Add(v.ID)
		}
	}
	return in
}
