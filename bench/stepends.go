package bench

import (
	"slices"
	"sync"
	"time"

	"github.com/berth-ml/berth/engine/device"
	"github.com/berth-ml/berth/partition"
)

// stepEnds notes when steps end on a device: the time of a step is from one
// end to the next. A host that waits would learn of an end late whenever the
// machine's cores are busy, and then find the next step done already.
type stepEnds struct {
	mu       sync.Mutex
	device   device.ID // the first stage's, where every step begins and the backward pass ends
	launches int       // of a step on that device
	seen     int
	at       []time.Time
}

// follow begins, before anything was launched.
func (e *stepEnds) follow(p *partition.Plan, devs []device.Device) {
	e.mu.Lock()
	defer e.mu.Unlock()
	first := p.Stages[0].Device
	e.device = devs[first].ID()
	for i := range p.Segments { // each is launched once per microbatch, and there is one
		if p.Segments[i].Device == first {
			e.launches++
		}
	}
}

// add is told of everything that streams do, by their goroutines.
func (e *stepEnds) add(s device.Span) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if s.Device != e.device || s.Stream != executorStream {
		return
	}
	if e.seen++; e.seen == e.launches {
		e.seen = 0
		e.at = append(e.at, s.End)
	}
}

// restart forgets all ends but the newest, and makes room for n more.
func (e *stepEnds) restart(n int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	newest := e.at[len(e.at)-1]
	e.at = append(make([]time.Time, 0, n+1), newest)
}

// times is how long each step took since the restart, shortest first.
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

// executorStream is the name of the stream that the executor launches on.
const executorStream = "compute"
