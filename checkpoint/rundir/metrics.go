package rundir

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/berth-ml/berth/checkpoint/runstate"
	"github.com/berth-ml/berth/configs"
	"github.com/berth-ml/berth/engine/osfile"
)

// Line is what a line of metrics.jsonl tells of: a [runstate.Step] that is logged, or a
// [runstate.Boundary].
type Line interface {
	Taken() int // the number of its step
}

// textOf is a line's text.
func textOf(l Line) ([]byte, error) {
	switch x := l.(type) {
	case runstate.Step:
		return json.Marshal(struct {
			Step         int      `json:"step"`
			Epoch        int      `json:"epoch"`
			Loss         float64  `json:"loss"`
			LearningRate float64  `json:"learning_rate"`
			GradNorm     *float64 `json:"grad_norm,omitempty"`
		}{x.Step, x.Epoch, x.Loss, x.LearningRate, x.GradNorm})
	case runstate.Boundary:
		return boundaryText(x)
	}
	panic("BUG: unknown line of metrics")
}

// boundaryText is the line of a boundary. The metrics that the config names come last, and the
// confusion matrix behind them, unless the line would be too long.
func boundaryText(e runstate.Boundary) ([]byte, error) {
	line, err := json.Marshal(struct {
		Epoch         int      `json:"epoch"`
		Step          int      `json:"step"`
		TrainLoss     *float64 `json:"train_loss,omitempty"`
		TrainAccuracy *float64 `json:"train_accuracy,omitempty"`
		ValLoss       *float64 `json:"val_loss,omitempty"`
		ValAccuracy   *float64 `json:"val_accuracy,omitempty"`
		RMSE          *float64 `json:"rmse,omitempty"`
		LearningRate  float64  `json:"learning_rate"`
		GradNorm      *float64 `json:"grad_norm,omitempty"`
		SamplesPerS   float64  `json:"samples_per_s"`
		TrainS        float64  `json:"train_s"`
		ValS          float64  `json:"val_s"`
		SamplesSeen   int64    `json:"samples_seen"`
		TokensSeen    int64    `json:"tokens_seen,omitempty"`
		DevicePeak    int64    `json:"device_peak_bytes"`
		Time          string   `json:"time"` // RFC 3339, in UTC
	}{
		e.Epoch, e.Step, e.TrainLoss, e.TrainAccuracy, e.ValLoss, e.ValAccuracy, e.RMSE, e.LearningRate, e.GradNorm,
		e.SamplesPerS, seconds(e.Time), seconds(e.ValTime), e.Samples, e.Tokens, e.DevicePeak, e.At.UTC().Format("2006-01-02T15:04:05.000Z07:00"),
	})
	if err != nil {
		return nil, err
	}
	line = e.Metrics.AppendFields(line, configs.ValPrefix)
	if e.Confusion == nil {
		return line, nil
	}
	matrix, err := json.Marshal(e.Confusion)
	if err != nil || len(line)+len(matrix) > longestLine/2 {
		return line, err
	}
	return fmt.Appendf(line[:len(line)-1], ",%q:%s}", configs.ValPrefix+"confusion", matrix), nil
}

// seconds is a time in seconds, to the microsecond.
func seconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1e6 }

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
// that remembers. Folder owns it.
type Metrics struct {
	file   appended  // whole lines
	losses []float64 // of all logged steps; never nil
	gap    gap       // the lines to write after those that wait
	lost   Lost      // for good: the gap had no room
	lacks  Lost      // lines that were damaged when the file was opened
	lines  int       // of steps in the file, at least
	events *events   // nil: no events are written
}

// openMetrics opens the file for appending, without the lines beyond a step: a
// resumed run does those steps again. Damage is told, and the damaged file kept. It
// returns the last step whose loss stays.
func openMetrics(ctx context.Context, path string, at Standing, warn func(string)) (m *Metrics, logged int, err error) {
	at.Every = max(1, at.Every)
	k, err := keepMetrics(ctx, path, at, nil)
	if err != nil {
		return nil, 0, err
	}
	aside := ""
	if k.unreadable > 0 || k.torn && k.lacks.Lines > 0 {
		if aside, err = osfile.KeepAside(path, ".damaged"); err != nil {
			return nil, 0, err
		}
	}
	if aside != "" || !k.first {
		err = WriteOwn(path, func(w io.Writer) error {
			_, err := keepMetrics(ctx, path, at, w)
			return err
		})
	}
	if err != nil {
		return nil, 0, err
	}
	if text := k.damage(aside); text != "" {
		warn(text)
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
	m = &Metrics{file: appended{path: path, warn: warn, whole: wholeLines}, losses: k.losses, lacks: k.lacks, lines: len(k.losses)}
	if err := m.file.use(f); err != nil {
		return nil, 0, errors.Join(err, f.Close())
	}
	return m, k.logged, nil
}

// wholeLines is the number of bytes of the whole lines at the beginning of b.
func wholeLines(b []byte) int { return bytes.LastIndexByte(b, '\n') + 1 }

// Losses are the losses of all logged steps, in order, also of those that the file
// lacks. They are valid until the next Write.
func (m *Metrics) Losses() []float64 { return m.losses }

// Lines counts lines of steps that are in the file. There may be more.
func (m *Metrics) Lines() int { return m.lines }

// Write appends a line; Flush makes it visible.
func (m *Metrics) Write(line Line) error {
	b, err := textOf(line)
	if err != nil {
		return fmt.Errorf("metrics: %w", err)
	}
	if s, ok := line.(runstate.Step); ok {
		m.losses = append(m.losses, s.Loss)
	}
	m.events.write(line, b)
	if len(m.gap.stretches) > 0 || len(m.file.waiting)+len(b) >= maxWaiting {
		if !m.gap.add(line, len(m.losses)-1) {
			m.lost.add(line.Taken()) // and not an older one: the file has no gap while it may still be written
		}
		return nil
	}
	m.file.waiting = append(append(m.file.waiting, b...), '\n')
	if len(m.file.waiting) >= flushAt && !m.file.failed {
		m.Flush()
	}
	return nil
}

// Flush writes the lines out. Where that fails they wait, which is said once.
func (m *Metrics) Flush() {
	m.file.flush(m.refill)
	if !m.file.failed && m.lost.Lines == 0 {
		m.lines = len(m.losses)
	}
	m.events.flush()
}

// refill makes lines of the gap wait, as many as one write takes, and reports
// whether there were any.
func (m *Metrics) refill() bool {
	for len(m.file.waiting) < flushAt {
		line := m.gap.next(m.losses)
		if line == nil {
			break
		}
		b, err := textOf(line)
		if err != nil {
			panic(fmt.Sprintf("BUG: a line of metrics was written once: %v", err))
		}
		m.file.waiting = append(append(m.file.waiting, b...), '\n')
	}
	return len(m.file.waiting) > 0
}

// End writes the lines that wait, and says which are lost. It returns those, with those that
// the file lacked when it was opened; nil: none.
func (m *Metrics) End() *Lost {
	m.events.end()
	err := m.file.write(m.refill)
	all := m.lost
	for line := range bytes.Lines(m.file.waiting) {
		var l struct{ Step int }
		_ = json.Unmarshal(line, &l)
		all.add(l.Step)
	}
	for line := m.gap.next(m.losses); line != nil; line = m.gap.next(m.losses) {
		all.add(line.Taken())
	}
	m.file.waiting, m.lost = nil, Lost{}
	lost := m.file.lacks("lines", &all, err)
	if m.lacks.Lines == 0 {
		return lost
	}
	return lost.After(&m.lacks, m.lacks.LastStep)
}

// close is End, and closes the files.
func (m *Metrics) close() (err error) {
	defer func() { err = errors.Join(m.file.close(), m.events.close()) }()
	m.End()
	return nil
}
