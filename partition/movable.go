package partition

import (
	"slices"

	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/executor/schedule"
	"github.com/berth-ml/berth/internal/stop"
	"github.com/berth-ml/berth/partition/speed"
)

// Movable reports whether blocks of a run with the plan can move to other devices between two steps, without other bits and
// through no host: each device has stages, of one replica, and all are of a kind that copies directly. The order of their
// steps is a named one, and nothing moves for lack of memory.
func (p *Plan) Movable() bool {
	o := &p.options
	switch {
	case p.Replicas() > 1, o.Ranks != nil, o.Order != nil, !p.goesBack(), p.AnyTight(),
		len(o.Devices) < 2, len(p.Devices()) < len(o.Devices):
		return false
	}
	for i := range o.Devices {
		if a, b := &o.Devices[0], &o.Devices[i]; a.Kind != b.Kind || a.Numerics != b.Numerics || !b.PeerCopy {
			return false
		}
	}
	return true
}

// PassSeconds is, per device, the time of the passes of a full step's microbatches, as the plan counts with it, with the time
// from each launch to the next.
func (p *Plan) PassSeconds() []float64 {
	speeds, sums, known := p.options.speeds(), make([]float64, len(p.options.Devices)), map[*Variant]map[int]float64{}
	check := stop.When(nil)
	err := p.walk(check)(func(l *Launch) {
		if !slices.ContainsFunc(l.Kinds(), schedule.Kind.OfMicrobatch) {
			return
		}
		on := known[l.Variant]
		if on == nil {
			on = map[int]float64{}
			known[l.Variant] = on
		}
		seconds, ok := on[l.Device]
		if !ok {
			seconds, _ = speeds.RunSeconds(check, l.Variant.Graph, l.Device)
			on[l.Device] = seconds
		}
		sums[l.Device] += speed.Overhead + seconds
	})
	if err != nil {
		panic("BUG: a plan without launches: " + err.Error())
	}
	return sums
}

// Slowed is the plan with times that follow from arithmetic and bytes, and of each device so many times as long; nil: as long.
// [Plan.Predict] and [Plan.PassSeconds] count with them.
func (p *Plan) Slowed(slow []float64) *Plan {
	q := *p
	q.options.Seconds, q.options.Slow = nil, slow
	return &q
}

// Moved are the variables that another plan of the same model has on other devices: their number, and the bytes that must be
// copied for it. ok is false where the plans do not have the same variables, and so no run can go over from one to the other.
func (p *Plan) Moved(to *Plan) (variables int, bytes int64, ok bool) {
	same := func(a, b *graph.Value) bool { return a.Name == b.Name && a.Meta.Equal(b.Meta) }
	if !slices.EqualFunc(p.Graph.Vars, to.Graph.Vars, same) {
		return 0, 0, false
	}
	before, after := p.variables(), to.variables()
	for _, v := range p.Graph.Vars {
		had, has := before[v.Name], after[v.Name]
		copies := 0
		for d := range has {
			if !had[d] {
				copies++
			}
		}
		if copies > 0 {
			variables++
			bytes += int64(copies) * v.Meta.Bytes()
		}
	}
	return variables, bytes, true
}

// HasRoomToMove reports whether the variables can go over to another plan of the same model within the limits of devices, where
// nothing but them is there: each arrives where there is room, and leaves the devices of before once it has arrived.
func (p *Plan) HasRoomToMove(to *Plan) bool {
	before, after, left := p.variables(), to.variables(), slices.Clone(p.Graph.Vars)
	taken := make([]int64, len(p.options.Devices))
	count := func(v *graph.Value, on, but map[int]bool, sign int64) {
		for d := range on {
			if !but[d] {
				taken[d] += sign * v.Meta.Bytes()
			}
		}
	}
	for _, v := range left {
		count(v, before[v.Name], nil, 1)
	}
	fits := func(v *graph.Value) bool {
		for d := range after[v.Name] {
			limit := p.options.Devices[d].MemoryBytes
			if !before[v.Name][d] && limit > 0 && taken[d]+v.Meta.Bytes() > limit {
				return false
			}
		}
		return true
	}
	for len(left) > 0 {
		var arrived, waiting []*graph.Value
		for _, v := range left {
			if !fits(v) {
				waiting = append(waiting, v)
				continue
			}
			count(v, after[v.Name], before[v.Name], 1)
			arrived = append(arrived, v)
		}
		if len(arrived) == 0 {
			return false
		}
		for _, v := range arrived {
			count(v, before[v.Name], after[v.Name], -1)
		}
		left = waiting
	}
	return true
}

// variables are the devices whose launches use each variable, by its name.
func (p *Plan) variables() map[string]map[int]bool {
	on := map[string]map[int]bool{}
	err := p.walk(stop.When(nil))(func(l *Launch) {
		for i := range l.Needs {
			v := l.Needs[i].Value
			if v.Kind != graph.Variable {
				continue
			}
			if on[v.Name] == nil {
				on[v.Name] = map[int]bool{}
			}
			on[v.Name][l.Device] = true
		}
	})
	if err != nil {
		panic("BUG: a plan without launches: " + err.Error())
	}
	return on
}
