package planner

import (
	priority "container/heap"
	"fmt"

	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/internal/stop"
)

// orderer orders the steps of a plan.
type orderer struct {
	graph *graph.Graph
	alias []int      // as in plan
	ins   []*Storage // as in plan
	steps []Step
	stop  *stop.Check
	// checked says that any step may end the launch: those that overwrite a donated
	// input, and those that depend on them, come last.
	checked bool
}

// order moves the steps that overwrite a donated input behind all steps that
// read the input, and behind those that may end the launch: a launch that ends
// early leaves donated inputs as they were. Otherwise steps keep their order.
func (o *orderer) order() ([]Step, error) {
	ends, readers := o.mustPrecede()
	before := make([][]int, len(o.steps)) // before[i]: steps that must come first
	late, moved := o.late()
	for i := range stop.Each(o.stop, o.steps) {
		for _, out := range o.steps[i].Out {
			j := out.Overwrites(o.alias)
			if j < 0 {
				continue
			}
			for _, list := range [][]int{ends, readers[j]} {
				for _, r := range list {
					if r != i {
						before[i] = append(before[i], r)
						moved = moved || r > i
					}
				}
			}
		}
	}
	if err := o.stop.Err(); err != nil || !moved {
		return o.steps, err
	}
	return o.sort(before, late)
}

// late marks the steps to come last. moved tells whether one of them comes before
// another step.
func (o *orderer) late() (late []bool, moved bool) {
	late = make([]bool, len(o.steps))
	if !o.checked {
		return late, false
	}
	after := map[*Storage]bool{} // written by a late step
	found := false
	for i, st := range stop.Each(o.stop, o.steps) {
		for _, s := range st.reads() {
			late[i] = late[i] || after[s]
		}
		for _, s := range st.Out {
			late[i] = late[i] || s.Overwrites(o.alias) >= 0
		}
		if !late[i] {
			moved = moved || found
			continue
		}
		found = true
		for _, s := range st.Out {
			after[s] = true
		}
	}
	return late, moved
}

// mustPrecede lists the steps that may end the launch, and, by input, the readers of
// those that are donated.
func (o *orderer) mustPrecede() (ends []int, readers [][]int) {
	donated := make([]bool, len(o.ins))
	for _, j := range o.alias {
		if j >= 0 {
			donated[j] = true
		}
	}
	readers = make([][]int, len(o.ins))
	for i := range stop.Each(o.stop, o.steps) {
		if o.steps[i].ends() {
			ends = append(ends, i)
		}
		for _, s := range o.steps[i].reads() {
			if s.Class == Input && donated[s.Index] {
				readers[s.Index] = append(readers[s.Index], i)
			}
		}
	}
	return ends, readers
}

// sort is Kahn's topological sort, the earliest free step first, and late ones behind
// all others: no other step depends on one.
func (o *orderer) sort(before [][]int, late []bool) ([]Step, error) {
	after, missing := o.edges(before)
	rank := func(i int) int {
		if late[i] {
			return i + len(o.steps)
		}
		return i
	}
	var free ints
	for i, n := range missing {
		if n == 0 {
			priority.Push(&free, rank(i))
		}
	}
	var sorted []Step
	for len(free) > 0 && !o.stop.Done() {
		i := priority.Pop(&free).(int) % len(o.steps)
		sorted = append(sorted, o.steps[i])
		for _, a := range after[i] {
			if missing[a]--; missing[a] == 0 {
				priority.Push(&free, rank(a))
			}
		}
	}
	if err := o.stop.Err(); err != nil {
		return nil, err
	}
	if len(sorted) < len(o.steps) {
		return nil, o.cycle(missing)
	}
	return sorted, nil
}

// edges adds to before the writers of each step's inputs. It returns the steps
// that come after each step, and the number of those that come before it.
func (o *orderer) edges(before [][]int) (after [][]int, missing []int) {
	for i, st := range stop.Each(o.stop, o.steps) {
		for _, s := range st.Out {
			s.writer = i
		}
	}
	after, missing = make([][]int, len(o.steps)), make([]int, len(o.steps))
	for i, st := range stop.Each(o.stop, o.steps) {
		for _, s := range st.reads() {
			if s.Class != Input {
				before[i] = append(before[i], s.writer)
			}
		}
		for _, b := range before[i] {
			after[b] = append(after[b], i)
			missing[i]++
		}
	}
	return after, missing
}

// cycle is the error about a donated input that would be read after it was
// overwritten, given the number of steps that each step still waits for.
func (o *orderer) cycle(missing []int) error {
	for i, n := range missing {
		if n == 0 {
			continue
		}
		for _, s := range o.steps[i].Out {
			if j := s.Overwrites(o.alias); j >= 0 {
				return fmt.Errorf("BUG: output %v takes over input %v, which is read after the output is known: do not donate it",
					o.graph.Outputs[s.Index], o.graph.Inputs[j])
			}
		}
	}
	return fmt.Errorf("BUG: the nodes of %s are not in topological order", o.graph.Name)
}

// ints is a heap of numbers, the least first.
type ints []int

func (h ints) Len() int           { return len(h) }
func (h ints) Less(i, j int) bool { return h[i] < h[j] }
func (h ints) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }
func (h *ints) Push(x any)        { *h = append(*h, x.(int)) }
func (h *ints) Pop() any {
	n := len(*h) - 1
	x := (*h)[n]
	*h = (*h)[:n]
	return x
}
