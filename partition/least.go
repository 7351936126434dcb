package partition

import (
	"slices"

	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/internal/stop"
)

const (
	kib = 1 << 10
	// mostProbes bounds the plans that a search for the least memory makes.
	mostProbes = 12
)

// Least is the error with the least memory that a search finds to be enough. The plan that lacks the fewest bytes
// of very little memory is seldom the one that needs the least: it computes all that can be in parts, and what joins
// them takes memory, too. The search plans anew some ten times, so ask once the refusal is final. It ends where less
// memory by a 64th is not enough.
func (e *MemoryError) Least() *MemoryError {
	if e.search.g == nil {
		return e
	}
	best, works, fails, at := e, int64(0), e.Limit, wholeKiB(e.Floor)
	for range mostProbes {
		p, err := e.search.plan(at)
		if err != nil {
			return best // such as that of a stop
		}
		f := e.search.tightest(p, at)
		switch {
		case f == nil:
			return best // the plan leaves out the devices that it is about
		case p.shortage().Missing == 0:
			best, works = p.memoryError(f), at
			best.least, best.Limit = at, e.search.s.Devices[f.Device].MemoryBytes
		case works == 0:
			fails, at = at, 2*at
			continue
		default:
			fails = at
		}
		if works-fails <= max(kib, works/64) {
			break
		}
		if at = wholeKiB(best.Floor); at >= works || at <= fails {
			at = wholeKiB(fails + (works-fails)/2)
		}
	}
	return best
}

// wholeKiB rounds bytes up, as messages do.
func wholeKiB(bytes int64) int64 { return (bytes + kib - 1) / kib * kib }

// search makes plans of a graph that was refused, for devices with more memory. The zero value makes none.
type search struct {
	g *graph.Graph
	s settings
	o PlanOptions // with Stop
}

// plan is the plan for devices with at least so much memory each. It need not fit.
func (x *search) plan(bytes int64) (*Plan, error) {
	s := x.s
	s.Devices = slices.Clone(s.Devices)
	for d := range s.Devices {
		if m := &s.Devices[d].MemoryBytes; *m > 0 {
			*m = max(*m, bytes)
		}
	}
	check := stop.When(x.o.Stop)
	defer check.Release()
	return newPlan(x.g, s, check)
}

// tightest is the largest floor of a device that had less memory; nil if none has a stage.
func (x *search) tightest(p *Plan, bytes int64) (f *Forecast) {
	for i := range p.Memory {
		m := &p.Memory[i]
		if had := x.s.Devices[m.Device].MemoryBytes; had > 0 && had < bytes && (f == nil || m.Floor > f.Floor) {
			f = m
		}
	}
	return f
}
