package partition

import "github.com/berth-ml/berth/engine/graph"

// table has an entry for some IDs of values or nodes. It forgets them all in
// constant time, so one table serves many stages.
type table[T any] struct {
	entries []T
	round   []uint32 // in which each entry was set
	now     uint32   // the current round
}

// newTable makes an empty table for IDs below n.
func newTable[T any](n int) *table[T] {
	return &table[T]{entries: make([]T, n), round: make([]uint32, n), now: 1}
}

func (t *table[T]) clear() { t.now++ }

func (t *table[T]) has(id int) bool { return t.round[id] == t.now }

// get is the entry, or zero if there is none.
func (t *table[T]) get(id int) (x T, ok bool) {
	if t.round[id] == t.now {
		return t.entries[id], true
	}
	return x, false
}

func (t *table[T]) set(id int, x T) {
	t.entries[id], t.round[id] = x, t.now
}

// marks is a set of IDs.
type marks struct{ *table[struct{}] }

func newMarks(n int) marks { return marks{newTable[struct{}](n)} }

// add reports whether the ID is new.
func (m marks) add(id int) bool {
	if m.has(id) {
		return false
	}
	m.set(id, struct{}{})
	return true
}

// read lists the values that nodes read but do not make, once each, in order of
// first use. It clears seen first.
func read(nodes []*graph.Node, seen marks) []*graph.Value {
	seen.clear()
	var in []*graph.Value
	for _, n := range nodes {
		for _, v := range n.In {
			if seen.add(v.ID) {
				in = append(in, v)
			}
		}
		for _, v := range n.Out {
			seen.add(v.ID)
		}
	}
	return in
}
