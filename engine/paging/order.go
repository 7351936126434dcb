package paging

import "sort"

// Never is the distance to a use that does not come.
const Never = 1 << 40

// Order knows when each object of a trace is used.
type Order struct {
	launches int
	uses     [][]int  // per object: the launches that use it, ascending
	reads    [][]bool // per object, beside uses: whether that use reads
}

// NewOrder reads a trace.
func NewOrder(t *Trace) *Order {
	o := &Order{launches: len(t.Launches), uses: make([][]int, len(t.Objects)), reads: make([][]bool, len(t.Objects))}
	for i := range t.Launches {
		for _, u := range t.Launches[i].Uses {
			o.uses[u.Object] = append(o.uses[u.Object], i)
			o.reads[u.Object] = append(o.reads[u.Object], u.Read)
		}
	}
	return o
}

// Next counts the launches from now until an object's next use after now, in this
// step or the next one, and reports whether that use reads it.
func (o *Order) Next(object, now int) (distance int, reads bool) {
	uses := o.uses[object]
	if len(uses) == 0 {
		return Never, false
	}
	if i := sort.SearchInts(uses, now+1); i < len(uses) {
		return uses[i] - now, o.reads[object][i]
	}
	return uses[0] + o.launches - now, o.reads[object][0]
}
