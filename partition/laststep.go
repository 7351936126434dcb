package partition

// traceLastStep makes the traces of the smaller last step of an epoch; nil where a full
// step takes at least as much memory. Replicas divide its microbatches otherwise: one
// may add two in a single launch that has neither together in a full step.
func (f *forecaster) traceLastStep() ([]*memoryTrace, error) {
	if f.replicas == 1 || len(f.sizes) == 1 {
		return nil, nil
	}
	launches, err := f.program.launches(f.idx.stop, stepOptions{microbatches: f.sizes[1]})
	if err != nil {
		return nil, err
	}
	traces := traceLaunches(f.idx.stop, len(f.specs), launches)
	addScratch(f.idx.stop, traces, launches, f.scratch)
	return traces, nil
}

// shareConstants adds to the traces of two steps on a device each other's constants of a
// microbatch, which stay there.
func (t *memoryTrace) shareConstants(other *memoryTrace) {
	t.addConstants(other)
	other.addConstants(t)
}

// addConstants adds the constants of a microbatch that only the other trace has.
func (t *memoryTrace) addConstants(other *memoryTrace) {
	here := map[instanceID]bool{}
	for _, x := range t.of {
		here[x.id()] = true
	}
	for o, x := range other.of {
		if x.Value.PerMicrobatch && !here[x.id()] {
			t.of, t.first = append(t.of, x), append(t.first, true)
			t.Objects = append(t.Objects, other.Objects[o])
		}
	}
}

// cover makes the forecast of a step one of another step too.
func (f *Forecast) cover(other Forecast) {
	if other.Floor > f.Floor {
		f.Floor, f.FloorBy, f.FloorOf = other.Floor, other.FloorBy, other.FloorOf
	}
	if other.Peak > f.Peak {
		f.Peak, f.PeakBy = other.Peak, other.PeakBy
	}
	f.Host = max(f.Host, other.Host)
}
