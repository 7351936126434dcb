package executor

import (
	"fmt"

	"github.com/berth-ml/berth/engine/device"
	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/executor/calls"
	"github.com/berth-ml/berth/partition"
)

// LoadOptions is the plan of a program and how its steps are made.
type LoadOptions struct {
	// Net prefixes the names of tensors that belong to this program alone. It
	// is unique among the programs of a runtime.
	Net string
	// Caches names the caches that the program shares with those that give the same
	// name. All other variables are shared by all programs of a runtime.
	Caches string
	// Adapter names the adapter of low rank that the graph has. Programs that give the same name
	// share all variables but caches. With others they share the base's weights alone: see
	// [graph.BaseTag]. "": the graph has none, or all programs have the same.
	Adapter string
	// Full is the plan of a microbatch of full size; its Update phase is for a
	// full batch.
	Full *partition.Plan
	// Tail is the same cut for an epoch's last batch: its Forward and Backward
	// are for that batch's last, smaller microbatch. Nil if every batch is full.
	Tail *partition.Plan
	// Buckets are the plans for batches whose samples have different shapes, by
	// Batch.Bucket: of Full's cut, see [partition.Derive]. The last is Full,
	// and no batch is smaller. Nil: all samples have Full's shapes.
	Buckets []*partition.Plan
	// LastMicrobatches is the number of microbatches in an epoch's last batch,
	// with the one of the tail's size. It is unused without a Tail.
	LastMicrobatches int
	// Constant gives the bytes of a per-microbatch constant.
	Constant func(v *graph.Value, microbatch int) []byte
	// Fetch keeps the graph's outputs after a step, for the caller to pull back.
	Fetch bool
	// CheckFinite fails at the first node whose output is not finite, to find
	// where training went wrong. Use it with a plan of Forward alone, so that
	// nothing is updated.
	CheckFinite bool
	// OpByOp runs each op by itself: it is compiled, leased and launched alone, and
	// the values between ops are tensors of residency's. The bits are the same.
	OpByOp bool
	// Beside runs the segments op by op at first, without checks, and compiles them
	// meanwhile, from the first step on. A step begins with the executables that
	// are ready by then. A segment that cannot be compiled stays op by op: see
	// [Runtime.Refused]. The bits are the same.
	Beside bool
	// Balance has replicas take microbatches by their measured speed, where the plan is
	// [partition.Plan.Shareable] and segments are not compiled beside steps. The bits are
	// the same. Nil: the plan's shares stay.
	Balance *Balance
	// Stop is called now and then while the program is loaded. Its error ends
	// loading. Nil means never.
	Stop func() error
}

// segment is a variant, as a device compiles it.
func (o *LoadOptions) segment(v *partition.Variant) device.Segment {
	return device.Segment{Graph: v.Graph, Options: device.CompileOptions{Alias: v.Alias, CheckFinite: o.CheckFinite, Stop: o.Stop}}
}

// call is a call, as a device compiles it.
func (o *LoadOptions) call(c *calls.Call) device.Segment {
	return device.Segment{Graph: c.Graph, Options: device.CompileOptions{Alias: c.Alias, CheckFinite: o.CheckFinite, Stop: o.Stop}}
}

// Compilations lists what is compiled for a program, by the index of the device and in
// order: by [Runtime.Load], and then while steps run. Of a rank, it lists what is compiled there: of is, per device, its
// rank, and nil where one process has all.
func (o LoadOptions) Compilations(of []int, rank int) (map[int][]device.Segment, error) {
	list, seen := map[int][]device.Segment{}, map[compiled]bool{}
	var beside []wanted
	add := func(size stepSize) error {
		launches, err := o.launches(size, of, rank)
		if err != nil {
			return err
		}
		for i := range launches {
			l := &launches[i]
			k := compiled{l.Variant, l.Device}
			if seen[k] || of != nil && of[l.Device] != rank {
				continue
			}
			seen[k] = true
			ops, err := o.ops(l.Variant)
			if err != nil {
				return fmt.Errorf("%s: %w", l.Segment.Name, err)
			}
			switch whole := o.segment(l.Variant); {
			case len(ops) == 0:
				list[l.Device] = append(list[l.Device], whole)
			case o.Beside && !o.OpByOp:
				beside = append(beside, wanted{compiled: k, segment: whole})
				fallthrough
			default:
				list[l.Device] = append(list[l.Device], ops...)
			}
		}
		return nil
	}
	var err error
	for _, size := range o.sizes() {
		if err == nil {
			err = add(size)
		}
	}
	for _, w := range beside {
		list[w.device] = append(list[w.device], w.segment)
	}
	return list, err
}

// ops are the ops of a variant as they are compiled; none if it is compiled whole.
func (o *LoadOptions) ops(v *partition.Variant) (list []device.Segment, err error) {
	if !o.OpByOp && !o.Beside {
		return nil, nil
	}
	cut, err := calls.Cut(v.Graph, v.Alias, o.Stop)
	for i := range cut {
		list = append(list, o.call(&cut[i]))
	}
	return list, err
}

// sizes are the sizes of steps, a full one of Full first.
func (o *LoadOptions) sizes() []stepSize {
	list := []stepSize{{full: o.Full, bucket: max(0, len(o.Buckets)-1), microbatches: o.Full.Microbatches}}
	for i, p := range o.Buckets {
		if p != o.Full {
			list = append(list, stepSize{full: p, bucket: i, microbatches: o.Full.Microbatches})
		}
	}
	if o.Tail != nil {
		list = append(list, stepSize{full: o.Full, microbatches: o.LastMicrobatches, tail: o.Tail})
	}
	return list
}

// launches lists the launches of a step; of a rank, its part of them.
func (o *LoadOptions) launches(size stepSize, of []int, rank int) ([]partition.Launch, error) {
	return size.full.Launches(partition.StepOptions{Microbatches: size.microbatches, Tail: size.tail, Fetch: o.Fetch, Of: of, Rank: rank})
}
