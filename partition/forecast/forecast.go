package forecast

import (
	"cmp"
	"errors"
	"fmt"

	"github.com/berth-ml/berth/engine/device"
	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/engine/paging"
	"github.com/berth-ml/berth/partition/nodes"
	"github.com/berth-ml/berth/partition/segment"
	"github.com/berth-ml/berth/partition/step"
)

// Forecast is the memory that a step takes on a device. A launch takes memory for
// its tensors and its scratch when it is queued, so the forecast follows from the
// order of the launches alone.
type Forecast struct {
	Device  int                     // index in PlanOptions.Devices
	Limit   int64                   // bytes; 0: none
	Peak    int64                   // most bytes at once of the plan that there is without a limit
	PeakBy  [device.NumUsages]int64 // the same by usage
	Floor   int64                   // bytes that the largest launch needs at once: the least limit
	FloorBy [device.NumUsages]int64 // the same by usage
	FloorOf string                  // that launch: "s0.F0"
	Loaded  int64                   // bytes copied in again per step, because the limit is below the peak
	Spilled int64                   // bytes copied out per step for the same reason
	Host    int64                   // bytes of host memory for what is copied out
	Seconds float64                 // time of a step's launches and of the moved bytes, one after the other, by arithmetic and bytes
}

// Moved is the bytes that move per step because the limit is below the peak.
func (f *Forecast) Moved() int64 { return f.Loaded + f.Spilled }

// Tight reports whether the limit is below the peak.
func (f *Forecast) Tight() bool { return f.Limit > 0 && f.Limit < f.Peak }

// Fits reports whether a step can run.
func (f *Forecast) Fits() bool { return f.Limit <= 0 || f.Floor <= f.Limit }

// OfSamples is the part of the floor that grows with the microbatch. Scratch goes with
// the larger part of the rest: it holds activations or weights in another form.
func (f *Forecast) OfSamples() int64 {
	samples, scratch := f.FloorBy[device.Activation]+f.FloorBy[device.Input], f.FloorBy[device.Scratch]
	if samples >= f.Floor-samples-scratch {
		samples += scratch
	}
	return samples
}

// Estimate is the memory that a run of a graph takes on device d.
type Estimate func(d int, g *graph.Graph, o device.CompileOptions) (device.Memory, error)

// Forecaster is the pass: the memory of each device, from the launches of a program's steps. It
// belongs to one call that plans: it keeps what devices have estimated, and their first error.
type Forecaster struct {
	Options
	program *step.Program
	index   *nodes.Index       // of the program
	known   map[step.Run]int64 // scratch
	err     error              // of an estimate
}

// Options says what is forecast.
type Options struct {
	Specs       []device.Spec
	Estimate    Estimate // of the memory of segments; nil means by their values alone
	CheckFinite bool     // segments will be compiled with device.CompileOptions.CheckFinite
	Sizes       []int    // microbatches of a full step, and of the smaller last one of an epoch if there is one
	Replicas    int
	Of          []int // per device, its rank, where only the devices of Rank matter; nil: all do
	Rank        int
}

// New makes a forecaster.
func New(p *step.Program, o Options) *Forecaster {
	return &Forecaster{Options: o, program: p, index: p.Index, known: map[step.Run]int64{}}
}

// Result is a forecast.
type Result struct {
	Memory   []Forecast // by device
	Launches int        // of a full step; 0: it was not looked at
}

// Forecast forecasts steps. With floors, it forecasts no more than the floors if a device is
// below its floor. The result is nil where it cannot be better than rival, the cost of a
// plan that fits; nil: there is none.
func (f *Forecaster) Forecast(floors bool, rival *Shortage) (*Result, error) {
	if floors && f.Sizes[0] > 2 { // otherwise there are as many launches as variants
		if r, err := f.Floors(rival); err != nil || r == nil || ShortageOf(r.Memory).Missing > 0 {
			return r, err
		}
	}
	return f.steps(rival)
}

// Floors is a forecast without peaks and moved bytes. See [Forecaster.Forecast].
func (f *Forecaster) Floors(rival *Shortage) (*Result, error) {
	launches, err := f.program.LaunchesOnce(f.Sizes)
	if err != nil {
		return nil, err
	}
	traces, err := f.Traces(launches, rival)
	if err != nil || traces == nil {
		return nil, err
	}
	r := &Result{}
	for d, t := range traces {
		m := t.forecastFloor(d, f.Specs[d])
		m.Seconds = t.seconds(0, f.Specs[d])
		r.Memory = append(r.Memory, m)
	}
	return r, f.index.Stop.Err()
}

// steps is a whole forecast. See [Forecaster.Forecast].
func (f *Forecaster) steps(rival *Shortage) (*Result, error) {
	launches, err := f.launches(f.Sizes[0])
	if err != nil {
		return nil, err
	}
	traces, err := f.Traces(launches, rival)
	if err != nil || traces == nil {
		return nil, err
	}
	last, err := f.traceLastStep()
	if err != nil {
		return nil, err
	}
	r := &Result{Launches: len(launches)}
	for d, t := range traces {
		if err := f.index.Stop.Err(); err != nil {
			return nil, err
		}
		if f.elsewhere(d) {
			r.Memory = append(r.Memory, Forecast{Device: d})
			continue
		}
		if last != nil {
			t.shareConstants(last[d])
		}
		m := t.forecast(d, f.Specs[d])
		if last != nil {
			m.Cover(last[d].forecast(d, f.Specs[d]))
		}
		r.Memory = append(r.Memory, m)
	}
	return r, nil
}

// elsewhere reports whether nobody asks for a device.
func (f *Forecaster) elsewhere(d int) bool { return f.Of != nil && f.Of[d] != f.Rank }

// launches lists the launches of a step of so many microbatches; of a rank, its part of them.
func (f *Forecaster) launches(microbatches int) ([]step.Launch, error) {
	return f.program.Launches(f.index.Stop, step.Options{Microbatches: microbatches, Of: f.Of, Rank: f.Rank, Near: true})
}

// Traces makes the traces of launches. Estimates of scratch take long, so it first looks at
// what is known without them: the traces are nil where they cannot be better than rival.
func (f *Forecaster) Traces(launches []step.Launch, rival *Shortage) ([]*Trace, error) {
	traces := TraceLaunches(f.index.Stop, len(f.Specs), launches)
	if err := f.index.Stop.Err(); err != nil {
		return nil, err
	}
	if rival != nil && !f.atLeast(traces).Less(*rival) {
		return nil, nil
	}
	AddScratch(f.index.Stop, traces, launches, f.scratch)
	return traces, cmp.Or(f.index.Stop.Err(), f.err)
}

// atLeast is a shortage that no forecast from the traces goes below, whatever the
// scratch.
func (f *Forecaster) atLeast(traces []*Trace) (s Shortage) {
	for d, t := range traces {
		spec := f.Specs[d]
		_, by := t.floor()
		if floor := nodes.Total(by); spec.MemoryBytes > 0 {
			s.Missing += max(0, floor-spec.MemoryBytes)
		}
		s.Seconds = max(s.Seconds, t.seconds(0, spec))
	}
	return s
}

// forecastFloor is a forecast of the floor alone.
func (t *Trace) forecastFloor(d int, spec device.Spec) Forecast {
	f := Forecast{Device: d, Limit: max(0, spec.MemoryBytes)}
	var at int
	at, f.FloorBy = t.floor()
	if f.Floor = nodes.Total(f.FloorBy); f.Floor > 0 {
		f.FloorOf = t.names[at]
	}
	return f
}

// forecast is a whole forecast of a device.
func (t *Trace) forecast(d int, spec device.Spec) Forecast {
	f := t.forecastFloor(d, spec)
	f.PeakBy = t.peak()
	f.Peak = nodes.Total(f.PeakBy)
	if f.Tight() && f.Fits() {
		r := paging.Replay(&t.Trace, f.Limit)
		f.Loaded, f.Spilled, f.Host = r.Loaded, r.Spilled, r.Host
	}
	f.Seconds = t.seconds(f.Moved(), spec)
	return f
}

// scratch is the working memory of a launch. Each variant is estimated once per device.
// After an error, it answers 0.
func (f *Forecaster) scratch(l *step.Launch) int64 {
	k := step.Run{Variant: l.Variant, Device: l.Device}
	if b, known := f.known[k]; known || f.err != nil || f.elsewhere(l.Device) {
		return b
	}
	b := f.estimateOf(l)
	f.known[k] = b
	return b
}

func (f *Forecaster) estimateOf(l *step.Launch) int64 {
	if f.Estimate == nil {
		return Temporaries(l.Variant)
	}
	ask := f.index.Stop.Err
	m, err := f.Estimate(l.Device, l.Variant.Graph, device.CompileOptions{Alias: l.Variant.Alias, CheckFinite: f.CheckFinite, Stop: ask})
	if err != nil {
		f.err = fmt.Errorf("%s on %s: %w", l.Segment.Name, f.Specs[l.Device].ID, err)
		if stopped := ask(); stopped != nil && errors.Is(err, stopped) {
			f.err = stopped
		}
	}
	return m.Temporary
}

// Temporaries is the most bytes at once of the values that a variant makes and
// uses only itself. It is more than a device takes, which computes some of them
// in place or never stores them, and less by what kernels need.
func Temporaries(v *segment.Variant) int64 {
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

// traceLastStep makes the traces of the smaller last step of an epoch; nil where a full
// step takes at least as much memory. Replicas divide its microbatches otherwise: one
// may add two in a single launch that has neither together in a full step. A worker
// with several stages takes turns by their number, so that fewer of them may need more.
func (f *Forecaster) traceLastStep() ([]*Trace, error) {
	if len(f.Sizes) == 1 {
		return nil, nil
	}
	full, err := f.program.Schedule(f.Sizes[0])
	if err != nil {
		return nil, err
	}
	if f.Replicas == 1 && len(full.Rows) == full.Stages {
		return nil, nil
	}
	launches, err := f.launches(f.Sizes[1])
	if err != nil {
		return nil, err
	}
	traces := TraceLaunches(f.index.Stop, len(f.Specs), launches)
	AddScratch(f.index.Stop, traces, launches, f.scratch)
	return traces, nil
}

// shareConstants adds to the traces of two steps on a device each other's constants of a
// microbatch, which stay there.
func (t *Trace) shareConstants(other *Trace) {
	t.addConstants(other)
	other.addConstants(t)
}

// addConstants adds the constants of a microbatch that only the other trace has.
func (t *Trace) addConstants(other *Trace) {
	here := map[step.ID]bool{}
	for _, x := range t.Of {
		here[x.ID()] = true
	}
	for o, x := range other.Of {
		if x.Value.PerMicrobatch && !here[x.ID()] {
			t.Of, t.Numbers, t.First = append(t.Of, x), append(t.Numbers, -1), append(t.First, true)
			t.Objects = append(t.Objects, other.Objects[o])
		}
	}
}

// Cover makes the forecast of a step one of another step too.
func (f *Forecast) Cover(other Forecast) {
	if other.Floor > f.Floor {
		f.Floor, f.FloorBy, f.FloorOf = other.Floor, other.FloorBy, other.FloorOf
	}
	if other.Peak > f.Peak {
		f.Peak, f.PeakBy = other.Peak, other.PeakBy
	}
	f.Host = max(f.Host, other.Host)
}

// Shortage is the cost of devices that are too small for a plan.
type Shortage struct {
	Missing int64   // bytes below the floors
	Moved   int64   // bytes per step
	Seconds float64 // of the slowest device
}

// ShortageOf is the shortage of a plan with these forecasts.
func ShortageOf(memory []Forecast) (s Shortage) {
	for i := range memory {
		f := &memory[i]
		if !f.Fits() {
			s.Missing += f.Floor - f.Limit
		}
		s.Moved += f.Moved()
		s.Seconds = max(s.Seconds, f.Seconds)
	}
	return s
}

// None reports whether every step takes what there is.
func (s Shortage) None() bool { return s.Missing == 0 && s.Moved == 0 }

// Less reports whether s is the smaller shortage: fewer missing bytes, or less time.
func (s Shortage) Less(o Shortage) bool {
	return s.Missing < o.Missing || s.Missing == o.Missing && s.Seconds < o.Seconds
}
