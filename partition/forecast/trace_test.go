package forecast_test

import (
	"testing"

	"pgregory.net/rapid"

	"github.com/berth-ml/berth/engine/paging"
	"github.com/berth-ml/berth/internal/stop"
	"github.com/berth-ml/berth/partition/forecast"
	"github.com/berth-ml/berth/partition/nets"
	"github.com/berth-ml/berth/partition/nets/passes"
	"github.com/berth-ml/berth/partition/step"
)

// TestPeakIsTheReplays compares the two ways to a peak. A replay is of a step after
// the first.
func TestPeakIsTheReplays(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := nets.Draw(t)
		s := passes.Draw(t, n)
		p := s.Program(t, n)
		memory := mustForecast(t, forecaster(s, p, 0, n.Microbatches))
		launches := passes.Launches(t, p, step.Options{Microbatches: n.Microbatches})
		traces := forecast.TraceLaunches(stop.When(nil), s.Count(), launches)
		forecast.AddScratch(stop.When(nil), traces, launches, scratch)
		for d, tr := range traces {
			if err := tr.Check(); err != nil {
				t.Fatalf("device %d: %v", d, err)
			}
			f, r := memory[d], paging.Replay(&tr.Trace, 0)
			var early int64 // bytes of variables that only the first step has from its beginning on
			for o, x := range tr.Objects {
				if tr.First[o] && !x.Lasting {
					early += paging.Rounded(x.Bytes)
				}
			}
			if f.Peak < r.Peak || f.Peak > r.Peak+early || f.Floor != r.Floor || r.Moved() != 0 {
				t.Fatalf("device %d: %+v, replay %+v", d, f, r)
			}
		}
	})
}

// TestLimitsMoveBytes: between the floor and the peak bytes move, outside nothing does. A limit
// never changes the floor or the peak.
func TestLimitsMoveBytes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := nets.Draw(t)
		s := passes.Draw(t, n)
		p := s.Program(t, n)
		for d, free := range mustForecast(t, forecaster(s, p, 0, n.Microbatches)) {
			if free.Peak == 0 {
				continue // the device has no stage
			}
			for _, limit := range []int64{free.Floor - 1, free.Floor, free.Peak - 1, free.Peak} {
				f := mustForecast(t, forecaster(s, p, limit, n.Microbatches))[d]
				if f.Floor != free.Floor || f.Peak != free.Peak {
					t.Fatalf("limit %d: %+v, without one %+v", limit, f, free)
				}
				if f.Fits() != (limit >= free.Floor) || f.Tight() != (limit < free.Peak) {
					t.Fatalf("limit %d: fits %v, tight %v; %+v", limit, f.Fits(), f.Tight(), f)
				}
				if f.Moved() > 0 && !(f.Fits() && f.Tight()) || f.Seconds < free.Seconds {
					t.Fatalf("limit %d: %+v, without one %+v", limit, f, free)
				}
			}
		}
	})
}
