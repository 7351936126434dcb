package costs

import (
	"fmt"
	"slices"
	"strings"

	"github.com/berth-ml/berth/engine/device"
	"github.com/berth-ml/berth/engine/graph"
)

// Key is the work that a time is of, and where it was done.
type Key struct {
	Work string `json:"work"` // of a segment, a copy, or a call: the functions below name it
	On   string `json:"on"`   // as On gives it
}

// Beside is the key of the same work while so many processes work on the machine, each with such devices.
func (k Key) Beside(processes int) Key {
	if processes > 1 {
		k.On += fmt.Sprintf(" in one of %d processes", processes)
	}
	return k
}

// SegmentKey is the key of a segment's run, compiled or op by op, on a device that On
// describes.
func SegmentKey(g *graph.Graph, opByOp bool, on string) Key {
	work := graph.Signature(g)
	if opByOp {
		work += " op by op"
	}
	return Key{Work: work, On: on}
}

// CallKey is the key of a call: of the time from one launch of an op to the next in a run
// op by op, where the ops themselves take next to none.
func CallKey(on string) Key { return Key{Work: "call", On: on} }

// On describes devices[d] and the devices that are busy at the same time, all of
// them: "cpu AVX-512 1 thread of cpu AVX-512 1+1". Equal devices in equal company
// have the same times.
func On(devices []device.Spec, d int) string {
	threads := map[string][]int{} // by kind
	for _, s := range devices {
		threads[kindOf(s)] = append(threads[kindOf(s)], s.Threads)
	}
	var all []string
	for kind, counts := range threads {
		slices.Sort(counts)
		all = append(all, kind+" "+strings.ReplaceAll(strings.Trim(fmt.Sprint(counts), "[]"), " ", "+"))
	}
	slices.Sort(all)
	return fmt.Sprintf("%s %d of %s", kindOf(devices[d]), devices[d].Threads, strings.Join(all, ", "))
}

// Between describes a copy from devices[from] to devices[to], and the devices that are
// busy meanwhile: as On, with the kind that it comes from if that is another one.
func Between(devices []device.Spec, from, to int) string {
	on := On(devices, to)
	if a, b := kindOf(devices[from]), kindOf(devices[to]); a != b {
		on += " from " + a
	}
	return on
}

// kindOf is a device's kind and instructions.
func kindOf(s device.Spec) string { return strings.TrimSpace(s.Kind + " " + s.Numerics) }
