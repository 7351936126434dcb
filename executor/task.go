package executor

import (
	"cmp"

	"github.com/berth-ml/berth/engine/device"
	"github.com/berth-ml/berth/executor/calls"
	"github.com/berth-ml/berth/executor/schedule"
	"github.com/berth-ml/berth/partition"
	"github.com/berth-ml/berth/residency"
)

// Ticket numbers a queued step, from 1.
type Ticket uint64

// ahead is the most steps of a program under way: one runs, the next is queued.
const ahead = 2

// task is one launch of a step: a segment for a microbatch, or one op of it. Only lease, in, out
// and events change from step to step.
type task struct {
	name       string // "s0.F2"; of an op, "s0.F2/fc1.matmul"
	updates    bool   // it writes variables
	microbatch int
	action     schedule.Action // of the step's schedule, which the task is a part of
	kind       schedule.Kind   // of the launch
	dev        int             // index in Runtime.Devices
	device     device.ID
	exe        device.Executable
	call       *calls.Call // the op; nil for a whole segment
	needs      []residency.Need
	scratch    int64 // bytes that exe needs besides
	inNeed     []int // per input of the executable, its index in needs
	outNeed    []int
	in, out    []device.Buffer
	lease      residency.Lease
	drops      []*residency.Tensor
	events     [ahead]device.Event // of the last steps that ran it
}

// stepSize is a size of steps.
type stepSize struct {
	full         *partition.Plan // of a full microbatch
	bucket       int             // [Batch.Bucket]
	microbatches int
	tail         *partition.Plan // of the last microbatch and the update; nil: they are full's
}

// last is the plan of the last microbatch.
func (s *stepSize) last() *partition.Plan { return cmp.Or(s.tail, s.full) }

// expansion is a step of a given number of microbatches: its tasks, in the order
// in which they are queued.
type expansion struct {
	stepSize
	net      string // LoadOptions.Net of the program
	schedule schedule.Schedule
	samples  int
	tasks    []*task
	feeds    []feed
	bytes    []int64             // of a batch, per field
	uses     *residency.Uses     // of all tasks, in order
	passing  []*residency.Tensor // not used after the step
}

// feed is one input of one microbatch: rows of a batch's field.
type feed struct {
	field       int
	from, bytes int64 // in the field
	tensor      *residency.Tensor
	views       [ahead]device.HostView // of the last steps' batches
}
