package step

import (
	"github.com/berth-ml/berth/engine/device"
	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/partition/nodes"
	"github.com/berth-ml/berth/partition/segment"
)

// Need is a tensor that a launch uses. A plan of many replicas has millions, so the fields are in the
// order in which they take the least memory.
type Need struct {
	Instance
	Number int // of the instance, among those of the step by first use
	Mode   segment.Mode
}

// Instance is a value of a microbatch, of a step or, for a variable, of the run.
type Instance struct {
	Value      *graph.Value
	Microbatch int // 0 unless there is one for each microbatch; of a partial sum the first that it has
	Bucket     int // Plan.Bucket
	Usage      device.Usage
	Tail       bool // it is of the tail's size; false unless there is one for each microbatch
}

// ID tells the instances of a step apart.
type ID struct {
	value      int // its ID, which is the same in the plan of a tail
	microbatch int
	tail       bool
}

// ID tells the instance from the others of a step.
func (i Instance) ID() ID { return ID{i.Value.ID, i.Microbatch, i.Tail} }

// Instance is the instance of v for a microbatch. tail tells that p is a step's tail.
func (p *Program) Instance(v *graph.Value, microbatch int, tail bool) Instance {
	if !nodes.PerMicrobatch(v) {
		microbatch, tail = 0, false
	}
	return Instance{Value: v, Microbatch: microbatch, Bucket: p.Bucket, Usage: p.Index.Usage(v), Tail: tail}
}

// numbering numbers the instances of a step. Those of one value differ by their
// microbatches: a step has a tail in place of its last microbatch, not beside it. Whoever lists
// launches owns it, and steps that share launches share it.
type numbering struct {
	of    [][]int32 // by Value.ID and microbatch: 1 + the number; 0: it has none yet
	count int
}

func newNumbering(idx *nodes.Index) *numbering {
	return &numbering{of: make([][]int32, len(idx.Graph.Values))}
}

func (n *numbering) number(i Instance) int {
	v, m := i.Value.ID, i.Microbatch
	if v >= len(n.of) { // of a tail that has more values
		n.of = append(n.of, make([][]int32, v+1-len(n.of))...)
	}
	if m >= len(n.of[v]) {
		n.of[v] = append(n.of[v], make([]int32, m+1-len(n.of[v]))...)
	}
	at := &n.of[v][m]
	if *at == 0 {
		n.count++
		*at = int32(n.count)
	}
	return int(*at) - 1
}

// find is the number that an instance has already.
func (n *numbering) find(i Instance) (number int, known bool) {
	v, m := i.Value.ID, i.Microbatch
	if v >= len(n.of) || m >= len(n.of[v]) || n.of[v][m] == 0 {
		return 0, false
	}
	return int(n.of[v][m]) - 1, true
}

// Count is the number of the instances that launches use.
func Count(launches []Launch) (n int) {
	for i := range launches {
		for k := range launches[i].Needs {
			n = max(n, launches[i].Needs[k].Number+1)
		}
	}
	return n
}

// needOf is the need of an instance.
func (e *expansion) needOf(i Instance, mode segment.Mode) Need {
	n := Need{Instance: i, Mode: mode}
	if e.numbers != nil {
		n.Number = e.numbers.number(i)
	}
	return n
}

// instance is the instance of a value in a launch.
func (e *expansion) instance(p *Program, l *Launch, v *graph.Value) Instance {
	i := p.Instance(v, l.Microbatch, l.Tail)
	if v.Kind == graph.Summed {
		i.Microbatch = l.Lo
	}
	return i
}

// binding is how every launch of a variant uses tensors: found once, since launches differ
// in the instances alone.
type binding struct {
	needs   []segment.Slot
	in, out []int // per input and output of the variant, its index in needs
}

// bindings are those of the variants that a step has run so far. Its expansion owns them.
type bindings struct {
	known map[*segment.Variant]*binding
	at    *nodes.Table[int] // of the variant under way: value → its index in the needs
	in    []int             // see pairs
	out   []int
}

func newBindings(idx *nodes.Index) *bindings {
	return &bindings{known: map[*segment.Variant]*binding{}, at: nodes.NewTable[int](len(idx.Graph.Values))}
}

// pairs are the inputs and outputs of a launch that adds pairs of its needs, each to the first.
func (x *bindings) pairs(n int) (in, out []int) {
	for len(x.out) < n {
		i := 2 * len(x.out)
		x.in, x.out = append(x.in, i, i+1), append(x.out, i)
	}
	return x.in[: 2*n : 2*n], x.out[:n:n]
}

// of finds the tensors of a variant. One that is both read and written is one need.
func (x *bindings) of(v *segment.Variant) *binding {
	b := x.known[v]
	if b != nil {
		return b
	}
	b = &binding{}
	x.known[v] = b
	x.at.Clear()
	for i, slots := range [][]segment.Slot{v.In, v.Out} {
		for _, s := range slots {
			at, known := x.at.Get(s.Value.ID)
			switch {
			case !known:
				at = len(b.needs)
				x.at.Set(s.Value.ID, at)
				b.needs = append(b.needs, s)
			case b.needs[at].Mode != s.Mode:
				b.needs[at].Mode = segment.ReadWrite
			}
			if i == 0 {
				b.in = append(b.in, at)
			} else {
				b.out = append(b.out, at)
			}
		}
	}
	return b
}
