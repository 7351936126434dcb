package balance

import "slices"

const (
	fewest = 3 // samples that must be taken before any change
	window = 9 // newest samples that count
)

// A sample is as many steps as have passes of so many seconds, or so many steps. A system stops threads for some hundredths of
// a second where others compute: a single short step says little, and the fastest of many is undisturbed.
const (
	sampleSeconds = 0.1
	sampleSteps   = 100
)

// sampler takes samples of how long some work in each step. Who judges by them owns it.
type sampler struct {
	took    [][window]float64 // by who works: seconds, a ring of the newest samples
	samples int               // less than 0: those that are passed over first
	least   []float64         // by who works: seconds in the fastest step of the sample that is being taken
	summed  int               // these steps
	passed  float64           // seconds of these steps
}

// newSampler is for so many that work.
func newSampler(n int) sampler {
	return sampler{took: make([][window]float64, n), least: make([]float64, n)}
}

// add adds a step, in which they worked for so many seconds. It gives the number of the sample's steps where that has ended
// with it, else 0.
func (s *sampler) add(seconds []float64) (steps int) {
	for i, x := range seconds {
		if s.summed == 0 || x < s.least[i] {
			s.least[i] = x
		}
	}
	s.summed++
	if s.passed += slices.Max(seconds); s.passed < sampleSeconds && s.summed < sampleSteps {
		return 0
	}
	if s.samples >= 0 {
		for i, x := range s.least {
			s.took[i][s.samples%window] = x
		}
	}
	s.samples++
	steps = s.summed
	s.summed, s.passed = 0, 0
	return steps
}

// newest is the newest sample. The next step overwrites it.
func (s *sampler) newest() []float64 { return s.least }

// usual is the lower quartile of the newest samples of one.
func (s *sampler) usual(i int) float64 {
	times, n := s.took[i], min(s.samples, window)
	slices.Sort(times[:n])
	return times[n/4]
}

// anew forgets all samples.
func (s *sampler) anew() { s.samples, s.summed, s.passed = 0, 0, 0 }
