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
	if floors && p.Microbatches > 2 { // otherwise there are as many launches as variants
		if whole, err := p.forecastFloors(e, rival); err != nil || !whole || p.shortage().missing > 0 {
			return whole, err
		}
	}
	return p.forecastSteps(e, rival)
}

// forecastFloors is a forecast without peaks and moved bytes. See forecast.
func (p *Plan) forecastFloors(e *estimator, rival *shortage) (whole bool, err error) {
	launches, err := p.launchesOnce()
	if err != nil {
		return false, err
	}
	traces, err := p.trace(e, launches, rival)
	if err != nil || traces == nil {
		return false, err
	}
	p.Memory = nil
	for d, t := range traces {
		f := t.forecastFloor(d, &p.options)
		f.Seconds = t.seconds(0, p.options.Devices[d])
		p.Memory = append(p.Memory, f)
	}
	return true, p.idx.stop.Err()
}

// forecastSteps is a whole forecast. See forecast.
func (p *Plan) forecastSteps(e *estimator, rival *shortage) (whole bool, err error) {
	launches, err := p.launchesUntil(p.idx.stop, StepOptions{Microbatches: p.Microbatches})
	if err != nil {
		return false, err
	}
	traces, err := p.trace(e, launches, rival)
	if err != nil || traces == nil {
		return false, err
	}
	last, err := p.traceLastStep(e)
	if err != nil {
		return false, err
	}
	p.launches, p.Memory = len(launches), nil
	for d, t := range traces {
		if err := p.idx.stop.Err(); err != nil {
			return false, err
		}
		if last != nil {
			t.shareConstants(last[d])
		}
		f := t.forecast(d, &p.options)
		if last != nil {
			f.cover(last[d].forecast(d, &p.options))
		}
		p.Memory = append(p.Memory, f)
	}
	return true, nil
}

// trace makes the traces of launches. Estimates of scratch take long, so it first looks
// at what is known without them: the traces are nil where p cannot be better than rival.
func (p *Plan) trace(e *estimator, launches []Launch, rival *shortage) ([]*memoryTrace, error) {
	traces := traceLaunches(p.idx.stop, len(p.options.Devices), launches)
	if err := p.idx.stop.Err(); err != nil {
		return nil, err
	}
	if rival != nil && !p.atLeast(traces).less(*rival) {
		return nil, nil
	}
	addScratch(p.idx.stop, traces, launches, e.scratch)
	return traces, cmp.Or(p.idx.stop.Err(), e.err)
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

// forecastFloor is a forecast of the floor alone.
func (t *memoryTrace) forecastFloor(d int, o *PlanOptions) Forecast {
	f := Forecast{Device: d, Limit: max(0, o.Devices[d].MemoryBytes)}
	var at int
	at, f.FloorBy = t.floor()
	if f.Floor = total(f.FloorBy); f.Floor > 0 {
		f.FloorOf = t.names[at]
	}
	return f
}

func (t *memoryTrace) forecast(d int, o *PlanOptions) Forecast {
	f := t.forecastFloor(d, o)
	f.PeakBy = t.peak()
	f.Peak = total(f.PeakBy)
	if f.Tight() && f.fits() {
		r := paging.Replay(&t.Trace, f.Limit)
		f.Loaded, f.Spilled, f.Host = r.Loaded, r.Spilled, r.Host
	}
	f.Seconds = t.seconds(f.Moved(), o.Devices[d])
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
