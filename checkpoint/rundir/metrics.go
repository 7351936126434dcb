package rundir

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"

	"github.com/berth-ml/berth/engine/osfile"
)

// StepLine is a logged step in metrics.jsonl.
type StepLine struct {
	Step         int      `json:"step"`
	Epoch        int      `json:"epoch"`
	Loss         float64  `json:"loss"`
	LearningRate float64  `json:"learning_rate"`
	GradNorm     *float64 `json:"grad_norm,omitempty"`
}

// BoundaryLine is a boundary in metrics.jsonl, by default an epoch's end.
type BoundaryLine struct {
	Epoch         int      `json:"epoch"`
	Step          int      `json:"step"`
	TrainLoss     *float64 `json:"train_loss,omitempty"`
	TrainAccuracy *float64 `json:"train_accuracy,omitempty"`
	ValLoss       *float64 `json:"val_loss,omitempty"`
	ValAccuracy   *float64 `json:"val_accuracy,omitempty"`
	RMSE          *float64 `json:"rmse,omitempty"` // of the validation
	LearningRate  float64  `json:"learning_rate"`
	GradNorm      *float64 `json:"grad_norm,omitempty"` // mean since the boundary before
	SamplesPerS   float64  `json:"samples_per_s"`
	TrainS        float64  `json:"train_s"` // seconds of the steps since the boundary before
	ValS          float64  `json:"val_s"`   // seconds of the evaluation
	SamplesSeen   int64    `json:"samples_seen"`
	TokensSeen    int64    `json:"tokens_seen,omitempty"`
	DevicePeak    int64    `json:"device_peak_bytes"`
	Time          string   `json:"time"` // RFC 3339, in UTC
}

// Line is a line of metrics.jsonl.
type Line interface {
	at() int // the number of its step
}

func (l StepLine) at() int     { return l.Step }
func (l BoundaryLine) at() int { return l.Step }

// Lost are lines that metrics.jsonl lacks, since it could not be written.
type Lost struct {
	Lines     int `json:"lines"`
	FirstStep int `json:"first_step"` // of the first line and of the last
	LastStep  int `json:"last_step"`
}

func (l *Lost) add(step int) {
	if l.Lines == 0 {
		l.FirstStep, l.LastStep = step, step
	}
	l.Lines++
	l.FirstStep, l.LastStep = min(l.FirstStep, step), max(l.LastStep, step)
}

// After adds what earlier calls of the run lost up to a step, from which this one
// went on: it took later steps again. Either may be nil.
func (l *Lost) After(earlier *Lost, upTo int) *Lost {
	if earlier == nil || earlier.FirstStep > upTo {
		return l
	}
	all := *earlier
	if all.LastStep > upTo { // a step has a line, and a boundary another
		all.LastStep = upTo
		all.Lines = min(all.Lines, 2*(upTo-all.FirstStep+1))
	}
	if l != nil {
		all.Lines += l.Lines
		all.LastStep = l.LastStep
	}
	return &all
}

// Metrics is metrics.jsonl: a line per logged step and a line per boundary. A run
// does not end where it cannot be written. Lines wait for the next Flush: as text,
// as many as maxWaiting bytes hold, and those after them in a gap, as many as
// that remembers.
type Metrics struct {
	path    string
	f       *os.File
	opened  fs.FileInfo // of f
	warn    func(string)
	losses  []float64 // of all logged steps; never nil
	waiting []byte    // whole lines to write
	gap     gap       // the lines to write after those that wait
	failed  bool      // the newest Flush did, which was said
	lost    Lost      // for good: the gap had no room
}

const (
	maxWaiting = 1 << 20  // bytes
	flushAt    = 64 << 10 // bytes that a Write flushes
)

// openMetrics opens the file for appending, without the lines beyond a step: a
// resumed run does those steps again. It returns the last step whose loss stays.
func openMetrics(ctx context.Context, path string, upTo int, warn func(string)) (m *Metrics, logged int, err error) {
	k, err := keepMetrics(ctx, path, upTo, nil)
	if err == nil && !k.first {
		err = WriteOwn(path, func(w io.Writer) error {
			_, err := keepMetrics(ctx, path, upTo, w)
			return err
		})
	}
	if err != nil {
		return nil, 0, err
	}
	f, err := osfile.Open(path, os.O_RDWR|os.O_APPEND|os.O_CREATE)
	if err != nil {
		return nil, 0, err
	}
	err = f.Truncate(k.size) // which a full disk allows
	if err == nil {
		_, err = f.Seek(0, io.SeekEnd)
	}
	if err != nil {
		return nil, 0, errors.Join(err, f.Close())
	}
	m = &Metrics{path: path, warn: warn, losses: k.losses}
	if err := m.use(f); err != nil {
		return nil, 0, errors.Join(err, f.Close())
	}
	return m, k.logged, nil
}

// use has m write to f.
func (m *Metrics) use(f *os.File) (err error) {
	m.f = f
	m.opened, err = f.Stat()
	return err
}

// Losses are the losses of all logged steps, in order, also of those that the file
// lacks. They are valid until the next Write.
func (m *Metrics) Losses() []float64 { return m.losses }

// Write appends a line; Flush makes it visible.
func (m *Metrics) Write(line Line) error {
	b, err := json.Marshal(line)
	if err != nil {
		return fmt.Errorf("metrics: %w", err)
	}
	if s, ok := line.(StepLine); ok {
		m.losses = append(m.losses, s.Loss)
	}
	if len(m.gap.stretches) > 0 || len(m.waiting)+len(b) >= maxWaiting {
		if !m.gap.add(line, len(m.losses)-1) {
			m.lost.add(line.at()) // and not an older one: the file has no gap while it may still be written
		}
		return nil
	}
	m.waiting = append(append(m.waiting, b...), '\n')
	if len(m.waiting) >= flushAt && !m.failed {
		m.Flush()
	}
	return nil
}

// Flush writes the lines out. Where that fails they wait, which is said once.
func (m *Metrics) Flush() {
	err := m.flush()
	if err != nil && !m.failed {
		m.warn(fmt.Sprintf("%s cannot be written for now, training goes on: %v", MetricsName, err))
	}
	m.failed = err != nil
}

func (m *Metrics) flush() error {
	if err := m.find(); err != nil {
		return err
	}
	for {
		if err := m.writeWaiting(); err != nil {
			return err
		}
		if !m.refill() {
			return nil
		}
	}
}

// writeWaiting writes the lines that wait. Those that it could not write wait on.
func (m *Metrics) writeWaiting() error {
	n, err := m.f.Write(m.waiting)
	if whole := bytes.LastIndexByte(m.waiting[:n], '\n') + 1; err != nil && n > whole && m.cut(n-whole) == nil {
		n = whole
	}
	m.waiting = append(m.waiting[:0], m.waiting[n:]...)
	return err
}

// refill makes lines of the gap wait, as many as one write takes, and reports
// whether there were any.
func (m *Metrics) refill() bool {
	for len(m.waiting) < flushAt {
		line := m.gap.next(m.losses)
		if line == nil {
			break
		}
		b, err := json.Marshal(line)
		if err != nil {
			panic(fmt.Sprintf("BUG: a line of metrics was written once: %v", err))
		}
		m.waiting = append(append(m.waiting, b...), '\n')
	}
	return len(m.waiting) > 0
}

// cut takes the newest n bytes off the file, which a full disk allows.
func (m *Metrics) cut(n int) error {
	end, err := m.f.Seek(0, io.SeekEnd)
	if err != nil {
		return err
	}
	if err := m.f.Truncate(end - int64(n)); err != nil {
		return err
	}
	_, err = m.f.Seek(0, io.SeekEnd)
	return err
}

// find makes the file anew, with all its lines, if it was removed. If its folder
// was moved, m goes on with the file there.
func (m *Metrics) find() error {
	st, err := os.Lstat(m.path)
	switch {
	case err == nil && os.SameFile(st, m.opened):
		return nil
	case err == nil:
		return fmt.Errorf("%s is another file than the one that the run writes: move it away", m.path)
	case !errors.Is(err, fs.ErrNotExist):
		return err
	}
	f, err := osfile.Open(m.path, os.O_RDWR|os.O_APPEND|os.O_CREATE|os.O_EXCL)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	old := m.f
	if _, err = io.Copy(f, io.NewSectionReader(old, 0, math.MaxInt64)); err == nil {
		err = m.use(f)
	}
	if err != nil {
		m.f = old
		return errors.Join(err, f.Close(), os.Remove(m.path))
	}
	m.warn(fmt.Sprintf("%s was removed while the run wrote it: it is there again, with all lines", MetricsName))
	return old.Close()
}

// End writes the lines that wait, and returns and says which are lost; nil: none.
func (m *Metrics) End() *Lost {
	err := m.flush()
	all := m.lost
	for line := range bytes.Lines(m.waiting) {
		var l StepLine // a BoundaryLine has a step, too
		_ = json.Unmarshal(line, &l)
		all.add(l.Step)
	}
	for line := m.gap.next(m.losses); line != nil; line = m.gap.next(m.losses) {
		all.add(line.at())
	}
	m.waiting, m.lost = nil, Lost{}
	if all.Lines == 0 {
		return nil
	}
	text := fmt.Sprintf("%s lacks %d of its lines, of steps %d to %d", MetricsName, all.Lines, all.FirstStep, all.LastStep)
	if err != nil {
		text += fmt.Sprintf(": %v", err)
	}
	m.warn(text)
	return &all
}

// close is End, and closes the file.
func (m *Metrics) close() (err error) {
	defer func() { err = m.f.Close() }()
	m.End()
	return nil
}
