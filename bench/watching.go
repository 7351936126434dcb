package bench

import (
	"context"
	"fmt"
	"io"
	"slices"
	"sync"
	"time"

	"github.com/berth-ml/berth/engine/device"
	"github.com/berth-ml/berth/engine/models"
	"github.com/berth-ml/berth/executor/boundary"
	"github.com/berth-ml/berth/executor/trace"
	"github.com/berth-ml/berth/internal/units"
)

// Looks is the cost of looks at the losses between boundaries (train.watch): the CPU time
// of one, in microseconds, its median. Training goes on meanwhile.
type Looks struct {
	Count  int     `json:"count"`
	HostUS float64 `json:"host_us"` // of the goroutine that trains: queueing the copy, asking after the next steps whether it has arrived, and the mean
	CopyUS float64 `json:"copy_us"` // of the device's stream that copies
}

// looks measures looks. Its methods, but for add, are of the goroutine that trains; a nil
// looks measures none.
type looks struct {
	watch  *boundary.Watch
	shown  int             // the newest step that a look has shown
	clock  time.Duration   // that reading the clock twice takes
	since  time.Duration   // of the host, since the look before
	host   []time.Duration // of each look
	mu     sync.Mutex
	copies []time.Duration // guarded by mu
}

// begin begins to look at a training, once in so long. Copies before it do not count.
func (l *looks) begin(s *training, every time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.copies = nil
	l.watch = boundary.Rings{Runtime: s.rt, Program: s.prog}.NewWatch(models.LossRing, every)
	l.shown = s.stepped
	const readings = 1000
	began := time.Now()
	for range readings {
		l.clock = time.Since(began)
	}
	l.clock = 2 * l.clock / readings
}

// after looks after a step, as training does.
func (l *looks) after(ctx context.Context, step, samples int) error {
	if l == nil || l.watch == nil || l.watch.Idle() { // until the next look is due, a step costs a nanosecond
		return nil
	}
	began := time.Now()
	at, losses, ok, err := l.watch.After(ctx, step)
	if ok {
		losses.Mean(max(l.shown, at-len(losses)), at, func(int) int { return samples })
		l.shown = at
	}
	l.since += max(0, time.Since(began)-l.clock)
	if ok {
		l.host, l.since = append(l.host, l.since), 0
	}
	return err
}

// add takes one operation of a stream. The goroutines of streams call it.
func (l *looks) add(s device.Span) {
	if s.What != "copy-out" {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.copies = append(l.copies, s.End.Sub(s.Start))
}

// close frees the memory of copies.
func (l *looks) close() {
	if l != nil {
		l.watch.Close()
	}
}

// result is the cost of a look; nil without looks. The streams have ended their work.
func (l *looks) result() *Looks {
	if l == nil {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return &Looks{Count: len(l.host), HostUS: medianUS(l.host), CopyUS: medianUS(l.copies)}
}

// medianUS is the median of times in microseconds; 0 if there are none.
func medianUS(times []time.Duration) float64 {
	if len(times) == 0 {
		return 0
	}
	return float64(trace.Percentile(slices.Sorted(slices.Values(times)), 50)) / float64(time.Microsecond)
}

// writeLooks prints the cost of looks, a line for each workload that was watched.
func writeLooks(w io.Writer, rs []Result, width int) error {
	rows := [][]string{{"WORKLOAD", "LOOKS", "CPU EACH", "HOST", "COPY"}}
	for _, r := range rs {
		if l := r.Looks; l != nil {
			rows = append(rows, append([]string{r.Name, units.Thousands(l.Count)}, times((l.HostUS+l.CopyUS)/1e3, l.HostUS/1e3, l.CopyUS/1e3)...))
		}
	}
	if len(rows) == 1 {
		return nil
	}
	_, err := fmt.Fprintf(w, "\nLooks at the losses while steps run (train.watch), of which training waits for none\n%s", numbers(rows, width))
	return err
}
