package timing

import (
	"github.com/berth-ml/berth/engine/device"
	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/partition"
)

// Task is a segment to time on devices[Device].
type Task struct {
	Name    string // for errors: "s0.F"
	Variant *partition.Variant
	In, Out []Tensor // of the variant's inputs and outputs
	Usage   func(v *graph.Value) device.Usage
	Device  int
}

// Tensor tells tensors apart that a task uses at once. Those of other microbatches are
// not told apart: one stands for all.
type Tensor struct {
	Value *graph.Value
	Copy  int // 1 for the second tensor of a value, such as a second partial sum
}

// Tasks are the segments of a step's launches, once for each device.
func Tasks(p *partition.Plan, launches []partition.Launch) []Task {
	type key struct {
		variant *partition.Variant
		device  int
	}
	seen := map[key]bool{}
	var list []Task
	for i := range launches {
		l := &launches[i]
		k := key{l.Variant, l.Device}
		if !seen[k] {
			seen[k] = true
			list = append(list, taskOf(p, l))
		}
	}
	return list
}

// taskOf is the task of a launch.
func taskOf(p *partition.Plan, l *partition.Launch) Task {
	needs, met := make([]Tensor, len(l.Needs)), map[*graph.Value]int{}
	for i, n := range l.Needs {
		needs[i] = Tensor{n.Value, met[n.Value]}
		met[n.Value]++
	}
	t := Task{Name: l.Name(), Variant: l.Variant, Usage: p.Usage, Device: l.Device}
	for _, i := range l.In {
		t.In = append(t.In, needs[i])
	}
	for _, i := range l.Out {
		t.Out = append(t.Out, needs[i])
	}
	return t
}

// tasksOn are the tasks of a device.
func tasksOn(tasks []Task, d int) (own []Task) {
	for _, t := range tasks {
		if t.Device == d {
			own = append(own, t)
		}
	}
	return own
}
