package berth

import (
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/berth-ml/berth/checkpoint/rundir"
	"github.com/berth-ml/berth/engine/device"
	"github.com/berth-ml/berth/residency"
)

// dumped are the files of a dump.
var dumped = []string{"graph.dot", "plan.dot", "plan.txt", "schedule.txt", "schedule.svg", ledgerName, traceName}

const (
	ledgerName = "ledger.csv"
	traceName  = "trace.json"
)

// dumper writes what a run was made of into a folder. A nil dumper does nothing.
type dumper struct {
	dir    string
	ledger *os.File
	rows   *csv.Writer
	trace  *tracer
}

// newDumper writes what is known before the run and opens the rest.
func (t *trainer) newDumper() (*dumper, error) {
	if t.opt.Dump == "" {
		return nil, nil
	}
	if err := os.MkdirAll(t.opt.Dump, 0o755); err != nil {
		return nil, err
	}
	s, err := t.Run.Schedule()
	if err != nil {
		return nil, err
	}
	line := s.Simulate(t.stageCost)
	line.Unit = "flops"
	files := map[string]string{
		"graph.dot": t.Plan.Graph.DOT(), "plan.dot": t.Plan.DOT(), "plan.txt": t.Plan.Table(),
		"schedule.txt": s.String() + "\n" + line.String(), "schedule.svg": line.SVG(),
	}
	for name, text := range files {
		err := rundir.WriteOutput(filepath.Join(t.opt.Dump, name), func(w io.Writer) error {
			_, err := io.WriteString(w, text)
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	t.trace.begin()
	d := &dumper{dir: t.opt.Dump, trace: &t.trace}
	if d.ledger, err = os.Create(filepath.Join(d.dir, ledgerName)); err != nil {
		return nil, err
	}
	d.rows = csv.NewWriter(d.ledger)
	return d, d.rows.Write([]string{"step", "kind", "reason", "value", "usage", "from", "to", "bytes", "cause"})
}

// row writes a transfer to the ledger.
func (d *dumper) row(r residency.Row) {
	if d != nil {
		d.rows.Write([]string{
			strconv.FormatInt(r.Step, 10), r.Kind.String(), string(r.Reason), r.Value, r.Usage.String(),
			r.From, r.To, strconv.FormatInt(r.Bytes, 10), r.Cause,
		})
	}
}

// close ends the ledger and writes the trace. More calls do nothing.
func (d *dumper) close() error {
	if d == nil || d.ledger == nil {
		return nil
	}
	d.rows.Flush()
	err := errors.Join(d.rows.Error(), d.ledger.Close(), d.trace.write(filepath.Join(d.dir, traceName)))
	d.ledger = nil
	return err
}

// tracer collects when each operation ran, to be looked at in Perfetto.
type tracer struct {
	on    atomic.Bool
	mu    sync.Mutex
	start time.Time
	spans []device.Span
}

// begin starts collecting.
func (t *tracer) begin() {
	t.mu.Lock()
	t.start, t.spans = time.Now(), nil
	t.mu.Unlock()
	t.on.Store(true)
}

// maxSpans bounds a trace's memory; the oldest spans are kept, which show how
// a step runs.
const maxSpans = 1 << 18

// add is called by the streams of the devices.
func (t *tracer) add(s device.Span) {
	if !t.on.Load() {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.spans) < maxSpans {
		t.spans = append(t.spans, s)
	}
}

// traceEvent is one entry of the Chrome trace event format: a lane per stream,
// a group per device.
type traceEvent struct {
	Name string            `json:"name"`
	Ph   string            `json:"ph"`
	PID  int               `json:"pid"`
	TID  int               `json:"tid"`
	TS   float64           `json:"ts"` // microseconds
	Dur  float64           `json:"dur,omitempty"`
	Args map[string]string `json:"args,omitempty"`
}

func (t *tracer) write(path string) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	return rundir.WriteOutput(path, func(w io.Writer) error {
		return json.NewEncoder(w).Encode(map[string]any{"traceEvents": t.events()})
	})
}

func (t *tracer) events() []traceEvent {
	var out []traceEvent
	pids, tids := map[device.ID]int{}, map[string]int{}
	for _, s := range t.spans {
		pid, ok := pids[s.Device]
		if !ok {
			pid = len(pids) + 1
			pids[s.Device] = pid
			out = append(out, traceEvent{Name: "process_name", Ph: "M", PID: pid, Args: map[string]string{"name": string(s.Device)}})
		}
		lane := fmt.Sprintf("%s/%s", s.Device, s.Stream)
		tid, ok := tids[lane]
		if !ok {
			tid = len(tids) + 1
			tids[lane] = tid
			out = append(out, traceEvent{Name: "thread_name", Ph: "M", PID: pid, TID: tid, Args: map[string]string{"name": s.Stream}})
		}
		out = append(out, traceEvent{
			Name: s.What, Ph: "X", PID: pid, TID: tid,
			TS: float64(s.Start.Sub(t.start).Nanoseconds()) / 1e3, Dur: float64(s.End.Sub(s.Start).Nanoseconds()) / 1e3,
		})
	}
	return out
}
