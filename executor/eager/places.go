package eager

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/berth-ml/berth/engine/graph"
)

// note notes the place where tensors were made. Those of refused calls have none.
func note(at Location, made ...Tensor) {
	for _, x := range made {
		if !x.refused() {
			x.note(at)
		}
	}
}

func (x Tensor) note(at Location) {
	h := x.rec.home
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.memory.places == nil {
		h.memory.places = map[*record]Location{}
	}
	h.memory.places[x.rec] = at
}

// leave closes the lanes' books, since the tenant is about to close, which frees all memory.
// Its error counts the tensors that still have handles.
func (c *Context) leave() error {
	tensors, bytes := 0, int64(0)
	held := map[graph.Pos]int{}
	for _, l := range c.lanes {
		l.mu.Lock()
		m := &l.memory
		m.closed = true
		tensors, bytes = tensors+m.live, bytes+m.bytes
		for r, at := range m.places {
			if !r.failed {
				held[at.Pos()]++
			}
		}
		l.mu.Unlock()
	}
	if tensors == 0 {
		return nil
	}
	s := "s are"
	if tensors == 1 {
		s = " is"
	}
	where := "ContextOptions.Places has Close name the lines that made them"
	if c.places {
		where = "made at " + placesText(held)
	}
	return fmt.Errorf("eager context: %d tensor%s still held, with %d bytes: consume or Release every handle; %s", tensors, s, bytes, where)
}

// mostPlaces is the most places that an error names.
const mostPlaces = 5

// placesText lists places by the number of tensors made there, the most first.
func placesText(held map[graph.Pos]int) string {
	order := slices.SortedFunc(maps.Keys(held), func(a, b graph.Pos) int {
		return cmp.Or(held[b]-held[a], cmp.Compare(a.File, b.File), a.Line-b.Line)
	})
	var list []string
	for i, p := range order {
		if i == mostPlaces {
			list = append(list, fmt.Sprintf("%d more places", len(order)-i))
			break
		}
		list = append(list, fmt.Sprintf("%v (%d)", p, held[p]))
	}
	return strings.Join(list, ", ")
}
