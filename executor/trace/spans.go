package trace

import (
	"encoding/json"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"github.com/berth-ml/berth/engine/device"
)

// Spans collect when each operation ran, to be looked at in Perfetto. They are
// safe for concurrent use, and collect nothing before Begin.
type Spans struct {
	on    atomic.Bool
	mu    sync.Mutex
	start time.Time
	spans []device.Span
}

// Begin forgets what was collected, and starts collecting.
func (t *Spans) Begin() {
	t.mu.Lock()
	t.start, t.spans = time.Now(), nil
	t.mu.Unlock()
	t.on.Store(true)
}

// maxSpans bounds the memory. The oldest spans are kept: they show how a step
// runs.
const maxSpans = 1 << 18

// Add is called by the streams of devices, for each operation.
func (t *Spans) Add(s device.Span) {
	if !t.on.Load() {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.spans) < maxSpans {
		t.spans = append(t.spans, s)
	}
}

// event is one entry of the Chrome trace event format: a lane per stream, a
// group per device.
type event struct {
	Name string            `json:"name"`
	Ph   string            `json:"ph"`
	PID  int               `json:"pid"`
	TID  int               `json:"tid"`
	TS   float64           `json:"ts"` // microseconds
	Dur  float64           `json:"dur,omitempty"`
	Args map[string]string `json:"args,omitempty"`
}

// Write writes the spans as Chrome trace events.
func (t *Spans) Write(w io.Writer) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	return json.NewEncoder(w).Encode(map[string]any{"traceEvents": t.events()})
}

func (t *Spans) events() []event {
	var out []event
	pids, tids := map[device.ID]int{}, map[string]int{}
	for _, s := range t.spans {
		pid, ok := pids[s.Device]
		if !ok {
			pid = len(pids) + 1
			pids[s.Device] = pid
			out = append(out, event{Name: "process_name", Ph: "M", PID: pid, Args: map[string]string{"name": string(s.Device)}})
		}
		lane := fmt.Sprintf("%s/%s", s.Device, s.Stream)
		tid, ok := tids[lane]
		if !ok {
			tid = len(tids) + 1
			tids[lane] = tid
			out = append(out, event{Name: "thread_name", Ph: "M", PID: pid, TID: tid, Args: map[string]string{"name": s.Stream}})
		}
		out = append(out, event{
			Name: s.What, Ph: "X", PID: pid, TID: tid,
			TS: float64(s.Start.Sub(t.start).Nanoseconds()) / 1e3, Dur: float64(s.End.Sub(s.Start).Nanoseconds()) / 1e3,
		})
	}
	return out
}
