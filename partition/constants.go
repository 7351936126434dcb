package partition

import "github.com/berth-ml/berth/engine/paging"

// addLastStep adds to the traces of a full step the constants that only the smaller
// last step of an epoch uses there: replicas divide its microbatches otherwise, and
// constants of a microbatch stay on each device that uses them.
func (p *Plan) addLastStep(traces []*memoryTrace, launches []Launch) error {
	last := p.options.LastMicrobatches
	if p.Replicas() == 1 || last == 0 || last == p.Microbatches {
		return nil
	}
	small, err := p.launchesUntil(p.idx.stop, StepOptions{Microbatches: last})
	if err != nil {
		return err
	}
	type onDevice struct {
		instanceID
		device int
	}
	there := map[onDevice]bool{}
	for i, l := range append(launches[:len(launches):len(launches)], small...) {
		for _, n := range l.Needs {
			at := onDevice{n.id(), l.Device}
			if !n.Value.PerMicrobatch || there[at] {
				continue
			}
			there[at] = true
			if i >= len(launches) {
				t := traces[l.Device]
				t.usage, t.first = append(t.usage, n.Usage), append(t.first, true)
				t.Objects = append(t.Objects, paging.Object{Name: n.Value.Name, Bytes: n.Value.Meta.Bytes(), Lasting: true})
			}
		}
	}
	return nil
}
