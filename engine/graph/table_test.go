package graph

import "testing"

// Entries are of values, also where IDs lie far apart, or where values of several
// graphs have the same.
func TestTable(t *testing.T) {
	values := func(ids ...int) (vs []*Value) {
		for _, id := range ids {
			vs = append(vs, &Value{ID: id})
		}
		return vs
	}
	for name, vs := range map[string][]*Value{
		"none": nil, "close": values(3, 4, 6, 5), "far apart": values(7, 1<<40), "the same": values(0, 0, 0), "close and the same": values(2, 3, 2, 4),
	} {
		g := &Graph{}
		for i, v := range vs {
			if i%2 == 0 {
				g.Inputs = append(g.Inputs, v)
			} else {
				g.Nodes = append(g.Nodes, &Node{Out: []*Value{v}})
			}
		}
		table := NewTable[int](g)
		all := append(vs, values(0, 4, 5, 1<<50)...) // and values of other graphs
		for i, v := range all {
			if *table.At(v) != 0 {
				t.Errorf("%s: the entry of value %d is %d", name, v.ID, *table.At(v))
			}
			*table.At(v) = i + 1
		}
		for i, v := range all {
			if *table.At(v) != i+1 {
				t.Errorf("%s: the entry of value %d is %d, want %d", name, v.ID, *table.At(v), i+1)
			}
		}
	}
}
