package partition

import (
	"cmp"
	"errors"
	"fmt"

	"github.com/berth-ml/berth/engine/device"
	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/engine/paging"
)

// setPeaks takes the peaks of the plan that there is without a limit.
func (p *Plan) setPeaks(free []Forecast) {
	for d := range p.Memory {
		p.Memory[d].Peak, p.Memory[d].PeakBy = free[d].Peak, free[d].PeakBy
	}
}

// forecast is pass 8: the memory of each device, from the launches of a step. With
// floors, it forecasts no more than the floors if a device is below its floor. It
// stops, and reports false, where p cannot be better than rival, the cost of a plan
// that fits; nil: there is none.
func (p *Plan) forecast(floors bool, rival *shortage) (whole bool, err error) {
	e := &estimator{plan: p, of: map[runOn]int64{}}
	few := 2 // the launches of further microbatches are like those of the second
	if p.idx.tree {
		few = 3 * p.Replicas() // the third of each adds two sums
	}
	if floors && few < p.Microbatches {
		if whole, err := p.forecastStep(e, few, rival); err != nil || !whole || p.shortage().missing > 0 {
			return whole, err
		}
	}
	return p.forecastStep(e, p.Microbatches, rival)
}

// forecastStep is the forecast for a step of that many microbatches. Estimates and
// replays take long, so it first looks at what is known without them.
func (p *Plan) forecastStep(e *estimator, microbatches int, rival *shortage) (whole bool, err error) {
	launches, err := p.launchesUntil(p.idx.stop, StepOptions{Microbatches: microbatches})
	if err != nil {
		return false, err
	}
	traces := traceLaunches(p.idx.stop, len(p.options.Devices), launches)
	if err := p.idx.stop.Err(); err != nil {
		return false, err
	}
	if rival != nil && !p.atLeast(traces).less(*rival) {
		return false, nil
	}
	addScratch(p.idx.stop, traces, launches, e.scratch)
	if err := cmp.Or(p.addLastStep(traces, launches), p.idx.stop.Err(), e.err); err != nil {
		return false, err
	}
	p.launches, p.Memory = len(launches), nil
	for d, t := range traces {
		if err := p.idx.stop.Err(); err != nil {
			return false, err
		}
		p.Memory = append(p.Memory, t.forecast(d, &p.options))
	}
	return true, nil
}

// atLeast is a shortage that no forecast from the traces goes below, whatever the
// scratch.
func (p *Plan) atLeast(traces []*memoryTrace) (s shortage) {
	for d, t := range traces {
		spec := p.options.Devices[d]
		_, by := t.floor()
		if floor := total(by); spec.MemoryBytes > 0 {
			s.missing += max(0, floor-spec.MemoryBytes)
		}
		s.seconds = max(s.seconds, t.seconds(0, spec))
	}
	return s
}

func (t *memoryTrace) forecast(d int, o *PlanOptions) Forecast {
	spec := o.Devices[d]
	f := Forecast{Device: d, Limit: max(0, spec.MemoryBytes), PeakBy: t.peak()}
	f.Peak = total(f.PeakBy)
	var at int
	at, f.FloorBy = t.floor()
	if f.Floor = total(f.FloorBy); f.Floor > 0 {
		f.FloorOf = t.names[at]
	}
	if f.Tight() && f.fits() {
		r := paging.Replay(&t.Trace, f.Limit, o.Evict)
		f.Loaded, f.Spilled, f.Host = r.Loaded, r.Spilled, r.Host
	}
	f.Seconds = t.seconds(f.Moved(), spec)
	return f
}

// estimator finds the scratch of launches, each variant once per device. After an
// error, it answers 0.
type estimator struct {
	plan *Plan
	of   map[runOn]int64
	err  error
}

func (e *estimator) scratch(l *Launch) int64 {
	k := runOn{l.Variant, l.Device}
	if b, known := e.of[k]; known || e.err != nil {
		return b
	}
	b := e.estimate(l)
	e.of[k] = b
	return b
}

func (e *estimator) estimate(l *Launch) int64 {
	o := &e.plan.options
	if o.Estimate == nil {
		return temporaries(l.Variant)
	}
	ask := e.plan.idx.stop.Err
	m, err := o.Estimate(l.Device, l.Variant.Graph, device.CompileOptions{Alias: l.Variant.Alias, CheckFinite: o.checkFinite, Stop: ask})
	if err != nil {
		e.err = fmt.Errorf("%s on %s: %w", l.Segment.Name, o.Devices[l.Device].ID, err)
		if stopped := ask(); stopped != nil && errors.Is(err, stopped) {
			e.err = stopped
		}
	}
	return m.Temporary
}

// temporaries is the most bytes at once of the values that a variant makes and
// uses only itself. It is more than a device takes, which computes some of them
// in place or never stores them, and less by what kernels need.
func temporaries(v *Variant) int64 {
	const unused, outside = 0, -1
	last := graph.NewTable[int](v.Graph) // 1 + the index of the last reader
	for i, n := range v.Graph.Nodes {
		for _, in := range n.In {
			*last.At(in) = i + 1
		}
	}
	for _, out := range v.Graph.Outputs {
		*last.At(out) = outside
	}
	var live, peak int64
	ends := make([]int64, len(v.Graph.Nodes))
	for i, n := range v.Graph.Nodes {
		for _, out := range n.Out {
			end := *last.At(out) - 1
			switch end + 1 {
			case outside:
				continue
			case unused:
				end = i
			}
			live += paging.Rounded(out.Meta.Bytes())
			ends[end] += paging.Rounded(out.Meta.Bytes())
		}
		peak = max(peak, live)
		live -= ends[i]
	}
	return peak
}
