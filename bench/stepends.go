package bench

import (
	"slices"
	"sync"
	"time"

	"github.com/berth-ml/berth/engine/device"
	"github.com/berth-ml/berth/executor/calls"
	"github.com/berth-ml/berth/executor/session"
	"github.com/berth-ml/berth/partition"
)

// stepEnds notes when steps end on a device. The time of a step is from one end
// to the next. The device's own clock is exact; a goroutine that waits for a
// step wakes late when all cores are busy.
type stepEnds struct {
	mu       sync.Mutex
	device   device.ID // the first stage's, where every step begins and the backward pass ends; of another rank, its first
	launches int       // of one step on that device; 0: the rank has none
	seen     int       // launches of the step under way that have ended
	at       []time.Time
}

// follow sets the device and its launches per step: those of segments, or of ops. Call
// it before the first launch.
func (e *stepEnds) follow(on *session.Session, microbatches int, opByOp bool) error {
	launches, err := on.Plan.Launches(partition.StepOptions{Microbatches: microbatches})
	if err != nil {
		return err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	first := on.Plan.Stages[0].Device
	if !on.Here(first) {
		first = slices.IndexFunc(launches, func(l partition.Launch) bool { return on.Here(l.Device) })
		if first < 0 {
			return nil
		}
		first = launches[first].Device
	}
	e.device = on.Devices[first].ID()
	for _, l := range launches {
		if l.Device != first {
			continue
		}
		n := 1
		if opByOp {
			list, err := calls.Cut(l.Variant.Graph, l.Variant.Alias, nil)
			if err != nil {
				return err
			}
			n = max(n, len(list))
		}
		e.launches += n
	}
	return nil
}

// add takes one operation of a stream. The goroutines of streams call it.
func (e *stepEnds) add(s device.Span) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if s.Device != e.device || s.Stream != device.ComputeStream {
		return
	}
	if e.seen++; e.seen == e.launches {
		e.seen = 0
		e.at = append(e.at, s.End)
	}
}

// mostRoom is the most ends that restart makes room for: a long bench can allocate now
// and then.
const mostRoom = 1 << 20

// restart forgets all ends but the newest, and makes room for n more, so that
// add does not allocate.
func (e *stepEnds) restart(n int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if len(e.at) == 0 { // the rank has no launches
		return
	}
	newest := e.at[len(e.at)-1]
	e.at = append(make([]time.Time, 0, min(n, mostRoom)+1), newest)
}

// times are the durations of the steps since the restart, shortest first.
func (e *stepEnds) times() []time.Duration {
	e.mu.Lock()
	defer e.mu.Unlock()
	var ds []time.Duration
	for i := 1; i < len(e.at); i++ {
		ds = append(ds, e.at[i].Sub(e.at[i-1]))
	}
	slices.Sort(ds)
	return ds
}
