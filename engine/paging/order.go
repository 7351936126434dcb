package paging

import "sort"

// Never is the distance to a use that does not come.
const Never = 1 << 40

// order knows when each object of a trace is used.
type order struct {
	launches int
	uses     [][]int  // per object: the launches that use it, ascending
	reads    [][]bool // per object, beside uses: whether that use reads
}

func newOrder(t *Trace) *order {
	o := &order{launches: len(t.Launches), uses: make([][]int, len(t.Objects)), reads: make([][]bool, len(t.Objects))}
	for i := range t.Launches {
		for _, u := range t.Launches[i].Uses {
			o.uses[u.Object] = append(o.uses[u.Object], i)
			o.reads[u.Object] = append(o.reads[u.Object], u.Read)
		}
	}
	return o
}

// next counts the launches from now until an object's next use at or after now,
// in this step or the next one, and reports whether that use reads it.
func (o *order) next(object, now int) (distance int, reads bool) {
	uses := o.uses[object]
	if len(uses) == 0 {
		return Never, false
	}
	if i := sort.SearchInts(uses, now); i < len(uses) {
		return uses[i] - now, o.reads[object][i]
	}
	return uses[0] + o.launches - now, o.reads[object][0]
}
