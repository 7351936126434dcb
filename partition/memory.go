package partition

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/berth-ml/berth/engine/device"
	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/engine/paging"
	"github.com/berth-ml/berth/internal/stop"
	"github.com/berth-ml/berth/internal/units"
	"github.com/berth-ml/berth/partition/nodes"
	"github.com/berth-ml/berth/partition/segment"
)

// lacksMemory refuses a plan with a launch that alone needs more memory than its
// device has. It names the device that lacks the most, for a limit is often that of
// all devices.
func (p *Plan) lacksMemory() error {
	var worst *Forecast
	for i := range p.Memory {
		if f := &p.Memory[i]; !f.Fits() && (worst == nil || f.Floor-f.Limit > worst.Floor-worst.Limit) {
			worst = f
		}
	}
	if worst == nil {
		return nil
	}
	return p.memoryError(worst)
}

// memoryError is the error about a device whose memory is below the plan's floor there.
func (p *Plan) memoryError(f *Forecast) *MemoryError {
	return &MemoryError{
		Forecast: *f, ID: p.options.Devices[f.Device].ID, least: f.Floor,
		advice: largestLayer(p.index) + "; " + strings.Join(p.remedies(f), ", ") + ",",
	}
}

// MemoryError is an [ErrMemory] about a device below the floor of every plan.
type MemoryError struct {
	Forecast // of the plan that lacks the least
	ID       device.ID
	advice   string
	least    int64  // bytes to give the device
	search   search // of less
}

func (e *MemoryError) Error() string {
	needed, limit := units.TwoBytes(e.Floor, e.Limit)
	return fmt.Sprintf("%v: %s on %s needs %s at once (%s), but there are %s; %s or give the device at least %s",
		ErrMemory, e.FloorOf, e.ID, needed, usageText(e.FloorBy), limit, e.advice, exactText(e.least))
}

// Needed is the memory of the device with which the error says that a plan fits, in bytes.
func (e *MemoryError) Needed() int64 { return e.least }

// Unwrap is ErrMemory.
func (e *MemoryError) Unwrap() error { return ErrMemory }

// mostForecast is the most ranks that each forecasts the memory of all.
const mostForecast = 16

// forecastFor is, per device, its rank, where one of many ranks forecasts its own devices alone: nil where all are forecast, since
// a plan that lacks memory on one of them would be another one on all. All ranks find the same.
func (p *Plan) forecastFor() []int {
	o := &p.options
	if o.Ranks == nil || slices.Max(o.Ranks) < mostForecast {
		return nil
	}
	if limit := leastLimit(p.options.Devices); limit == math.MaxInt64 || limit < 2*p.mostBytes() { // without limits, the peaks decide on them
		return nil
	}
	return o.Ranks
}

// mostBytes is more than a device ever has, but for scratch, which is less than the values of a segment.
func (p *Plan) mostBytes() (bytes int64) {
	o, ends := &p.options, make([]int64, p.Replicas())
	each := int64((o.Microbatches+p.Replicas()-1)/p.Replicas() + 1)
	for _, v := range p.Graph.Values {
		if v == nil {
			continue
		}
		n := v.Meta.Bytes() + paging.Align
		switch {
		case v.Kind == graph.Summed:
			at := 0
			if p.place.Shared != nil {
				at = p.place.Shared.Sum[v.ID]
			}
			ends[at] += n
			bytes += each * n
		case nodes.PerMicrobatch(v):
			bytes += each * n
		default:
			bytes += n
		}
	}
	return bytes + int64(o.Microbatches)*slices.Max(ends)
}

// remedies lists what would lower a floor, other than finer segments.
func (p *Plan) remedies(f *Forecast) []string {
	if f.OfSamples() < f.Floor/8 {
		return []string{"use a smaller model"}
	}
	switch {
	case p.generates():
		return []string{"use a shorter context (--context)"}
	case !p.goesBack():
		return []string{"use a smaller batch (a smaller train.batch, or a greater train.microbatches)"}
	}
	list := []string{"use a smaller microbatch (a greater train.microbatches)"}
	if p.options.asked == RecomputeCheap { // without it, block was tried
		list = append(list, "set partition.recompute to block")
	}
	return list
}

// unit names what the plan runs again and again.
func (p *Plan) unit() string {
	if p.goesBack() || p.generates() {
		return "step"
	}
	return "batch"
}

// generates reports whether the plan continues texts.
func (p *Plan) generates() bool {
	return slices.ContainsFunc(p.Graph.Vars, func(v *graph.Value) bool { return v.Role == graph.Cache })
}

// finerYet says that with less memory the launch at the floor is cut finer; nil if
// it is not. Only updates with state are cut into ranges.
func (p *Plan) finerYet(f *Forecast, ask func() error) ([]string, error) {
	switch fits, err := p.fitsBelow(f, ask); {
	case err != nil || !fits:
		return nil, err
	case !p.ranges.On() && f.FloorBy[device.OptState] > 0:
		return []string{"give less memory (segments and updates are then cut finer)"}, nil
	case p.grain != segment.ByNode:
		return []string{"give less memory (segments are then cut finer)"}, nil
	}
	return nil, nil
}

// fitsBelow reports whether a plan fits in less memory than a floor, on all devices with the limit of that one. It plans anew.
func (p *Plan) fitsBelow(f *Forecast, ask func() error) (bool, error) {
	if p.asked.g == nil {
		return false, nil
	}
	o := p.asked.o
	o.Stop = ask
	o.Devices = slices.Clone(o.Devices)
	for d := range o.Devices {
		if o.Devices[d].MemoryBytes == f.Limit {
			o.Devices[d].MemoryBytes = f.Floor - 1
		}
	}
	_, err := New(p.asked.g, o)
	if err != nil && ask != nil {
		return false, ask()
	}
	return err == nil, nil
}

// Floors says, for each device with less memory than the plan would take, what
// takes the floor and what would lower it. It may plan anew: ask is called now and then,
// and its error ends that. Nil means never.
func (p *Plan) Floors(ask func() error) (list []string, err error) {
	for i := range p.Memory {
		f := &p.Memory[i]
		if !f.Tight() {
			continue
		}
		lower, err := p.finerYet(f, ask)
		if err != nil {
			return nil, err
		}
		list = append(list, fmt.Sprintf("the floor of %s is %s, for %s (%s); to lower it, %s",
			p.options.Devices[f.Device].ID, units.Bytes(f.Floor), f.FloorOf, usageText(f.FloorBy), strings.Join(append(lower, p.remedies(f)...), ", or ")))
	}
	return list, nil
}

// Room is the memory of all devices together in bytes; 0 if one has no limit.
func Room(devices []device.Spec) (bytes int64) {
	for _, d := range devices {
		if d.MemoryBytes <= 0 {
			return 0
		}
		bytes += d.MemoryBytes
	}
	return bytes
}

// TooLarge is the ErrMemory for parameters that fit nowhere, which is known before
// planning. room is the bytes of the devices and of free host memory. largest is
// the layer with the most bytes of parameters.
func TooLarge(parameters, room int64, largest *graph.Layer, bytes int64) error {
	return fmt.Errorf("%w: its parameters alone need %s, but the devices and the host have %s; the largest layer is %v, whose parameters need %s; use a smaller model, or give the devices more memory",
		ErrMemory, units.Bytes(parameters), units.Bytes(room), largest, units.Bytes(bytes))
}

// largestLayer names the layer with the most bytes of variables and forward
// results.
func largestLayer(idx *nodes.Index) string {
	bytes := map[*graph.Layer]int64{}
	var order []*graph.Layer
	add := func(l *graph.Layer, v *graph.Value) {
		if l == nil {
			return
		}
		if _, seen := bytes[l]; !seen {
			order = append(order, l)
		}
		bytes[l] += v.Meta.Bytes()
	}
	for _, v := range idx.Graph.Vars {
		add(v.Layer, v)
	}
	for _, n := range stop.Each(idx.Stop, idx.Graph.Nodes) {
		if n.Phase == graph.Forward {
			for _, v := range n.Out {
				add(n.Layer, v)
			}
		}
	}
	var best *graph.Layer
	for _, l := range order {
		if best == nil || bytes[l] > bytes[best] {
			best = l
		}
	}
	if best == nil {
		return "the graph has no layers"
	}
	return fmt.Sprintf("the largest layer is %v with %s of variables and activations", best, units.Bytes(bytes[best]))
}

// The causes of this package's errors.
var (
	ErrMemory = errors.New("the model does not fit in device memory")
	// ErrReplicas is for replicas that do not fit the devices or the step.
	ErrReplicas = errors.New("cannot run the replicas as asked")
)

// replicasError is an ErrReplicas.
type replicasError string

func (e replicasError) Error() string { return string(e) }
func (e replicasError) Unwrap() error { return ErrReplicas }
