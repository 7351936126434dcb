package paging

import "sort"

// Never is the distance to a use that does not come.
const Never = 1 << 40

// Order knows when each object of a trace is used.
type Order struct {
	launches int
	uses     [][]int  // per object: the launches that use it, ascending
	reads    [][]bool // per object, beside uses: whether that use reads
	writes   [][]bool // likewise: whether it writes
}

// NewOrder reads a trace.
func NewOrder(t *Trace) *Order {
	o := &Order{launches: len(t.Launches), uses: make([][]int, len(t.Objects)), reads: make([][]bool, len(t.Objects)), writes: make([][]bool, len(t.Objects))}
	for i := range t.Launches {
		for _, u := range t.Launches[i].Uses {
			o.uses[u.Object] = append(o.uses[u.Object], i)
			o.reads[u.Object] = append(o.reads[u.Object], u.Read)
			o.writes[u.Object] = append(o.writes[u.Object], u.Write)
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

// manyGaps is the gaps before the next write from which on a copy out counts for
// nothing. It is from the recorded steps: with 3 or 6 of them, more bytes move.
const manyGaps = 4

// Serves reports whether a copy out of an object's contents now would serve many
// gaps between uses: those until the next write. It is made once for all of them, so
// none should be charged with the whole of it.
func (o *Order) Serves(object, now int) bool {
	uses := o.uses[object]
	if len(uses) == 0 {
		return false
	}
	next := sort.SearchInts(uses, now+1)
	for k := range manyGaps - 1 {
		if o.writes[object][(next+k)%len(uses)] {
			return false
		}
	}
	return true
}
