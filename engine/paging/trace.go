package paging

import (
	"fmt"
	"slices"
	"sort"
)

// Align is the alignment of every block of a device's memory, in bytes. Objects
// and scratch take a multiple of it.
const Align = 64

// Trace is one step of a device, which repeats.
type Trace struct {
	Objects  []Object
	Launches []Launch // in order of submission
}

// Object is a tensor, or a part of one that moves alone.
type Object struct {
	Name  string
	Bytes int64
	// Lasting objects have contents between steps: variables and constants. So
	// does an output that the host may read after the step.
	Lasting bool
	// Fed objects get new contents on the host in every step, before its first
	// launch. The first launch that reads one copies it in.
	Fed bool
}

// Launch is one run of an executable.
type Launch struct {
	Scratch int64 // bytes that the launch needs in addition to its objects
	Uses    []Use // each object at most once
	Frees   []int // objects whose contents end with the launch
}

// Use is how a launch uses an object. A write without a read leaves nothing of
// the old contents.
type Use struct {
	Object      int // index in Trace.Objects
	Read, Write bool
}

// Rounded is the memory that an object or scratch of so many bytes takes.
func Rounded(bytes int64) int64 { return (bytes + Align - 1) &^ (Align - 1) }

// Lease is the memory that a launch needs: its objects and its scratch.
func (t *Trace) Lease(l *Launch) int64 {
	bytes := Rounded(l.Scratch)
	for _, u := range l.Uses {
		bytes += Rounded(t.Objects[u.Object].Bytes)
	}
	return bytes
}

// Floor is the largest lease. With less memory, the step cannot run.
func (t *Trace) Floor() (bytes int64) {
	for i := range t.Launches {
		bytes = max(bytes, t.Lease(&t.Launches[i]))
	}
	return bytes
}

// Check reports a trace that cannot be a step: indices out of range, an object
// used twice by one launch, or contents that are read before they are written.
func (t *Trace) Check() error {
	whole := make([]bool, len(t.Objects)) // has contents
	for i, o := range t.Objects {
		whole[i] = o.Lasting || o.Fed
	}
	for i := range t.Launches {
		if err := t.checkLaunch(i, whole); err != nil {
			return err
		}
	}
	return nil
}

func (t *Trace) checkLaunch(i int, whole []bool) error {
	l := &t.Launches[i]
	used := map[int]bool{}
	for _, u := range l.Uses {
		switch {
		case u.Object < 0 || u.Object >= len(t.Objects):
			return fmt.Errorf("launch %d uses object %d, but there are %d objects", i, u.Object, len(t.Objects))
		case used[u.Object]:
			return fmt.Errorf("launch %d uses %s twice: merge the uses", i, t.Objects[u.Object].Name)
		case !u.Read && !u.Write:
			return fmt.Errorf("launch %d neither reads nor writes %s", i, t.Objects[u.Object].Name)
		case u.Read && !whole[u.Object]:
			return fmt.Errorf("launch %d reads %s, which has no contents then", i, t.Objects[u.Object].Name)
		}
		used[u.Object] = true
		whole[u.Object] = true
	}
	for _, o := range l.Frees {
		if o < 0 || o >= len(t.Objects) || t.Objects[o].Lasting {
			return fmt.Errorf("launch %d frees object %d, which is lasting or is not one of the %d objects", i, o, len(t.Objects))
		}
		whole[o] = false
	}
	return nil
}

// Never is the distance to a use that does not come.
const Never = 1 << 40

// Order knows when each object of a trace is used. It does not change, so replays and a device
// share one.
type Order struct {
	launches int
	uses     [][]int  // per object: the launches that use it, ascending
	reads    [][]bool // per object, for each entry of uses: whether that use reads
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

// last is the last launch before now that uses an object, or that writes it if there is one; perhaps of a step before.
func (o *Order) last(object, now int, writes bool) int {
	uses := o.uses[object]
	if writes && !slices.Contains(o.writes[object], true) {
		return now - o.launches
	}
	i := sort.SearchInts(uses, now)
	for back := 1; ; back++ {
		k := i - back
		if at := (k%len(uses) + len(uses)) % len(uses); !writes || o.writes[object][at] {
			steps := 0
			if k < 0 {
				steps = (k - len(uses) + 1) / len(uses)
			}
			return uses[at] + steps*o.launches
		}
	}
}

// at reports whether a launch uses an object.
func (o *Order) at(object, launch int) bool {
	_, found := slices.BinarySearch(o.uses[object], launch)
	return found
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
	// uses[next] is the first use after now. Those after it go on in the next step.
	next := sort.SearchInts(uses, now+1)
	for k := range manyGaps - 1 {
		if o.writes[object][(next+k)%len(uses)] {
			return false
		}
	}
	return true
}
