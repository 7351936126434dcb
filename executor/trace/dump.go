package trace

import (
	"bytes"
	"cmp"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/berth-ml/berth/engine/osfile"
	"github.com/berth-ml/berth/executor"
	"github.com/berth-ml/berth/executor/schedule"
	"github.com/berth-ml/berth/partition"
	"github.com/berth-ml/berth/partition/picture"
	"github.com/berth-ml/berth/residency/ledger"
)

const (
	ledgerName  = "ledger.csv"
	traceName   = "trace.json"
	failureName = "failure.txt"
	stepName    = "step.svg"
)

// DumpFiles lists the names of a dump's files; failure.txt is there after a failure,
// step.svg after two steps.
func DumpFiles() []string {
	return []string{"graph.dot", "plan.dot", "plan.txt", "schedule.txt", "schedule.svg", ledgerName, traceName, stepName, failureName}
}

// ledgerHeader is the first line of ledger.csv.
var ledgerHeader = []string{"step", "kind", "reason", "value", "usage", "from", "to", "bytes", "cause"}

// Foreign names a file that a dump into a folder would replace, and which no
// dump wrote: a link, or a file without a ledger next to it. It is "" where there
// is none.
func Foreign(dir string) (path string) {
	header := []byte(strings.Join(ledgerHeader, ",") + "\n")
	text, _ := osfile.Read(filepath.Join(dir, ledgerName), len(header))
	ours := bytes.Equal(text, header)
	for _, name := range DumpFiles() {
		path := filepath.Join(dir, name)
		st, err := os.Lstat(path)
		if err == nil && (!st.Mode().IsRegular() || st.Size() > 0 && !ours) {
			return path
		}
	}
	return ""
}

// Write gives a file the contents that write writes.
type Write func(path string, write func(io.Writer) error) error

// Dump is a folder for a run's graph, plan, schedule, transfers and operations.
// A nil Dump does nothing.
type Dump struct {
	dir    string
	name   string // of the model
	write  Write
	plan   *partition.Plan
	since  executor.Ticket // the first step by that plan
	spans  *Spans
	ledger *os.File // nil once closed
	rows   *csv.Writer
}

// NewDump makes the folder for a model of that name, writes graph, plan and schedule, and starts
// collecting the rest. The ledger comes first: it marks the folder as a dump's.
// The caller closes the dump.
func NewDump(dir, name string, p *partition.Plan, s schedule.Schedule, spans *Spans, write Write) (*Dump, error) {
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return nil, err
	}
	d := &Dump{dir: dir, name: name, write: write, plan: p, spans: spans}
	if err := d.openLedger(); err != nil {
		return nil, err
	}
	if err := d.describe(p, s); err != nil {
		return nil, errors.Join(err, d.ledger.Close())
	}
	for _, name := range []string{failureName, stepName} {
		if err := os.Remove(filepath.Join(dir, name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, errors.Join(err, d.ledger.Close())
		}
	}
	spans.Begin()
	return d, nil
}

// openLedger begins the ledger.
func (d *Dump) openLedger() (err error) {
	if d.ledger, err = osfile.Open(filepath.Join(d.dir, ledgerName), os.O_RDWR|os.O_CREATE); err != nil {
		return err
	}
	d.rows = csv.NewWriter(d.ledger)
	if err = d.ledger.Truncate(0); err == nil {
		err = d.rows.Write(ledgerHeader)
	}
	d.rows.Flush()
	if err = errors.Join(err, d.rows.Error()); err != nil {
		return errors.Join(err, d.ledger.Close())
	}
	return nil
}

// describe writes graph, plan and schedule.
func (d *Dump) describe(p *partition.Plan, s schedule.Schedule) error {
	line := s.Simulate(p.ActionFlops())
	line.Unit = "flops"
	files := map[string]string{
		"graph.dot": p.Graph.DOT(), "plan.dot": p.DOT(), "plan.txt": p.Table(0),
		"schedule.txt": s.String() + "\n" + line.String(), "schedule.svg": picture.ScheduleSVG(d.name, p, line),
	}
	for name, text := range files {
		err := d.write(filepath.Join(d.dir, name), func(w io.Writer) error {
			_, err := io.WriteString(w, text)
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// Recut describes another plan, by which a program's steps run from one on.
func (d *Dump) Recut(p *partition.Plan, s schedule.Schedule, since executor.Ticket) error {
	if d == nil {
		return nil
	}
	d.plan, d.since = p, since
	return d.describe(p, s)
}

// From numbers the steps in the trace: so many were taken before the run.
func (d *Dump) From(steps int) {
	if d != nil {
		d.spans.from(steps)
	}
}

// Step adds a step, as the training loop has timed it, to the trace.
func (d *Dump) Step(number int, start, end time.Time) {
	if d != nil {
		d.spans.step(number, start, end)
	}
}

// Draw draws a step of a program as it was predicted and as it ran, if two have run.
func (d *Dump) Draw(net string, x *partition.Prediction) error {
	if d == nil {
		return nil
	}
	line, step, ok := d.spans.measured(net, d.plan, d.since)
	if !ok {
		return nil
	}
	return d.write(filepath.Join(d.dir, stepName), func(w io.Writer) error {
		_, err := io.WriteString(w, picture.StepSVG(d.name, d.plan, x, step, line))
		return err
	})
}

// Transfer adds a row to the ledger.
func (d *Dump) Transfer(r ledger.Row) {
	if d != nil {
		d.spans.Moved(r)
		d.rows.Write([]string{
			strconv.FormatInt(r.Step, 10), r.Kind.String(), string(r.Reason), r.Value, r.Usage.String(),
			r.From, r.To, strconv.FormatInt(r.Bytes, 10), r.Cause,
		})
	}
}

// Failure writes why a step failed, and the schedule about the failed task.
func (d *Dump) Failure(step int, task *executor.TaskError) error {
	if d == nil {
		return nil
	}
	return d.write(filepath.Join(d.dir, failureName), func(w io.Writer) error {
		_, err := fmt.Fprintf(w, "step %d: %v\n\n%s", step, task, task.Grid())
		return err
	})
}

// Close ends the ledger and writes the operations. Its error is the first of what cannot be
// written. More calls do nothing.
func (d *Dump) Close() error {
	if d == nil || d.ledger == nil {
		return nil
	}
	d.rows.Flush()
	d.spans.End()
	err := cmp.Or(d.rows.Error(), d.ledger.Close(), d.write(filepath.Join(d.dir, traceName), d.spans.Write))
	d.ledger = nil
	if err != nil {
		return fmt.Errorf("the dump in %s is incomplete: %w", d.dir, err)
	}
	return nil
}
