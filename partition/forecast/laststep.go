package forecast

import (
	"github.com/berth-ml/berth/partition/step"
)

// traceLastStep makes the traces of the smaller last step of an epoch; nil where a full
// step takes at least as much memory. Replicas divide its microbatches otherwise: one
// may add two in a single launch that has neither together in a full step.
func (f *Forecaster) traceLastStep() ([]*Trace, error) {
	if f.Replicas == 1 || len(f.Sizes) == 1 {
		return nil, nil
	}
	launches, err := f.program.Launches(f.index.Stop, step.Options{Microbatches: f.Sizes[1]})
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
			t.Of, t.First = append(t.Of, x), append(t.First, true)
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
