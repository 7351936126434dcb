package graph

// Table has an entry for each value that a graph reads or makes. Where the IDs of
// the values lie close together, as in a whole graph, it is an array, otherwise, as
// in a piece of a graph, a map.
type Table[T any] struct {
	first int        // the ID of the value of near[0]
	near  []entry[T] // by ID
	far   map[*Value]*T
}

type entry[T any] struct {
	of *Value // nil: the entry is free
	x  T
}

// NewTable makes a table for the inputs and the values of the nodes of g. All
// entries are zero.
func NewTable[T any](g *Graph) *Table[T] {
	const sparse = 4 // times as many IDs as values
	first, last, count := -1, -1, 0
	add := func(vs []*Value) {
		count += len(vs)
		for _, v := range vs {
			if first < 0 || v.ID < first {
				first = v.ID
			}
			last = max(last, v.ID)
		}
	}
	add(g.Inputs)
	for _, n := range g.Nodes {
		add(n.Out)
	}
	t := &Table[T]{first: first}
	if ids := last - first + 1; first >= 0 && ids <= sparse*count {
		t.near = make([]entry[T], ids)
	}
	return t
}

// At is the entry of a value.
func (t *Table[T]) At(v *Value) *T {
	if i := v.ID - t.first; i >= 0 && i < len(t.near) {
		e := &t.near[i]
		if e.of == nil {
			e.of = v
		}
		if e.of == v {
			return &e.x
		}
	}
	x := t.far[v]
	if x == nil {
		if t.far == nil {
			t.far = map[*Value]*T{}
		}
		x = new(T)
		t.far[v] = x
	}
	return x
}
