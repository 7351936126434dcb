package partition

import (
	"cmp"
	"errors"
	"fmt"

	"github.com/berth-ml/berth/engine/device"
	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/engine/paging"
)

// Estimate is the memory that a run of a graph takes on PlanOptions.Devices[d].
type Estimate func(d int, g *graph.Graph, o device.CompileOptions) (device.Memory, error)

// forecaster is pass 8: the memory of each device, from the launches of a program's steps.
type forecaster struct {
	forecastOptions
	program *program
	idx     *index          // of the program
	known   map[runOn]int64 // scratch
	err     error           // of an estimate
}

// forecastOptions says what is forecast.
type forecastOptions struct {
	specs       []device.Spec
	estimate    Estimate // of the memory of segments; nil means by their values alone
	checkFinite bool     // segments will be compiled with device.CompileOptions.CheckFinite
	sizes       []int    // microbatches of a full step, and of the smaller last one of an epoch if there is one
	replicas    int
}

func newForecaster(p *program, o forecastOptions) *forecaster {
	return &forecaster{forecastOptions: o, program: p, idx: p.idx, known: map[runOn]int64{}}
}

// result is a forecast.
type result struct {
	memory   []Forecast // by device
	launches int        // of a full step; 0: it was not looked at
}

// forecast forecasts steps. With floors, it forecasts no more than the floors if a device is
// below its floor. The result is nil where it cannot be better than rival, the cost of a
// plan that fits; nil: there is none.
func (f *forecaster) forecast(floors bool, rival *shortage) (*result, error) {
	if floors && f.sizes[0] > 2 { // otherwise there are as many launches as variants
		if r, err := f.floors(rival); err != nil || r == nil || shortageOf(r.memory).missing > 0 {
			return r, err
		}
	}
	return f.steps(rival)
}

// floors is a forecast without peaks and moved bytes. See forecast.
func (f *forecaster) floors(rival *shortage) (*result, error) {
	launches, err := f.program.launchesOnce(f.sizes)
	if err != nil {
		return nil, err
	}
	traces, err := f.trace(launches, rival)
	if err != nil || traces == nil {
		return nil, err
	}
	r := &result{}
	for d, t := range traces {
		m := t.forecastFloor(d, f.specs[d])
		m.Seconds = t.seconds(0, f.specs[d])
		r.memory = append(r.memory, m)
	}
	return r, f.idx.stop.Err()
}

// steps is a whole forecast. See forecast.
func (f *forecaster) steps(rival *shortage) (*result, error) {
	launches, err := f.program.launches(f.idx.stop, stepOptions{microbatches: f.sizes[0]})
	if err != nil {
		return nil, err
	}
	traces, err := f.trace(launches, rival)
	if err != nil || traces == nil {
		return nil, err
	}
	last, err := f.traceLastStep()
	if err != nil {
		return nil, err
	}
	r := &result{launches: len(launches)}
	for d, t := range traces {
		if err := f.idx.stop.Err(); err != nil {
			return nil, err
		}
		if last != nil {
			t.shareConstants(last[d])
		}
		m := t.forecast(d, f.specs[d])
		if last != nil {
			m.cover(last[d].forecast(d, f.specs[d]))
		}
		r.memory = append(r.memory, m)
	}
	return r, nil
}

// trace makes the traces of launches. Estimates of scratch take long, so it first looks at
// what is known without them: the traces are nil where they cannot be better than rival.
func (f *forecaster) trace(launches []Launch, rival *shortage) ([]*memoryTrace, error) {
	traces := traceLaunches(f.idx.stop, len(f.specs), launches)
	if err := f.idx.stop.Err(); err != nil {
		return nil, err
	}
	if rival != nil && !f.atLeast(traces).less(*rival) {
		return nil, nil
	}
	addScratch(f.idx.stop, traces, launches, f.scratch)
	return traces, cmp.Or(f.idx.stop.Err(), f.err)
}

// atLeast is a shortage that no forecast from the traces goes below, whatever the
// scratch.
func (f *forecaster) atLeast(traces []*memoryTrace) (s shortage) {
	for d, t := range traces {
		spec := f.specs[d]
		_, by := t.floor()
		if floor := total(by); spec.MemoryBytes > 0 {
			s.missing += max(0, floor-spec.MemoryBytes)
		}
		s.seconds = max(s.seconds, t.seconds(0, spec))
	}
	return s
}

// forecastFloor is a forecast of the floor alone.
func (t *memoryTrace) forecastFloor(d int, spec device.Spec) Forecast {
	f := Forecast{Device: d, Limit: max(0, spec.MemoryBytes)}
	var at int
	at, f.FloorBy = t.floor()
	if f.Floor = total(f.FloorBy); f.Floor > 0 {
		f.FloorOf = t.names[at]
	}
	return f
}

// forecast is a whole forecast of a device.
func (t *memoryTrace) forecast(d int, spec device.Spec) Forecast {
	f := t.forecastFloor(d, spec)
	f.PeakBy = t.peak()
	f.Peak = total(f.PeakBy)
	if f.Tight() && f.fits() {
		r := paging.Replay(&t.Trace, f.Limit)
		f.Loaded, f.Spilled, f.Host = r.Loaded, r.Spilled, r.Host
	}
	f.Seconds = t.seconds(f.Moved(), spec)
	return f
}

// scratch is the working memory of a launch. Each variant is estimated once per device.
// After an error, it answers 0.
func (f *forecaster) scratch(l *Launch) int64 {
	k := runOn{l.Variant, l.Device}
	if b, known := f.known[k]; known || f.err != nil {
		return b
	}
	b := f.estimateOf(l)
	f.known[k] = b
	return b
}

func (f *forecaster) estimateOf(l *Launch) int64 {
	if f.estimate == nil {
		return temporaries(l.Variant)
	}
	ask := f.idx.stop.Err
	m, err := f.estimate(l.Device, l.Variant.Graph, device.CompileOptions{Alias: l.Variant.Alias, CheckFinite: f.checkFinite, Stop: ask})
	if err != nil {
		f.err = fmt.Errorf("%s on %s: %w", l.Segment.Name, f.specs[l.Device].ID, err)
		if stopped := ask(); stopped != nil && errors.Is(err, stopped) {
			f.err = stopped
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
