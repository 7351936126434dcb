package berth

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
)

// metricsFile is metrics.jsonl: a line per logged step and a line per epoch.
type metricsFile struct {
	f       *os.File
	waiting []byte // lines to write
	failed  bool   // the newest attempt to
}

// stepLine is a logged step.
type stepLine struct {
	Step  int     `json:"step"`
	Epoch int     `json:"epoch"`
	Loss  float64 `json:"loss"`
}

// epochLine is an epoch's end.
type epochLine struct {
	Epoch         int      `json:"epoch"`
	Step          int      `json:"step"`
	TrainLoss     *float64 `json:"train_loss,omitempty"`
	TrainAccuracy *float64 `json:"train_accuracy,omitempty"`
	ValLoss       *float64 `json:"val_loss,omitempty"`
	ValAccuracy   *float64 `json:"val_accuracy,omitempty"`
	RMSE          *float64 `json:"rmse,omitempty"` // of the validation
	SamplesPerS   float64  `json:"samples_per_s"`
}

// openMetrics opens the file for appending after dropping what lies beyond a
// step: a resumed run does those steps again. It returns the losses that stay,
// never nil, and the last step of them.
func openMetrics(path string, upTo int) (m *metricsFile, losses []float64, logged int, err error) {
	old, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, nil, 0, err
	}
	kept, losses, logged := keepMetrics(old, upTo)
	if !bytes.HasPrefix(old, kept) {
		if err := replaceFile(path, kept); err != nil {
			return nil, nil, 0, err
		}
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o644)
	if err != nil {
		return nil, nil, 0, err
	}
	if err := f.Truncate(int64(len(kept))); err != nil { // which a full disk allows
		return nil, nil, 0, errors.Join(err, f.Close())
	}
	return &metricsFile{f: f}, losses, logged, nil
}

// keepMetrics keeps the lines of steps up to a step. A line that was cut off
// by a crash is dropped.
func keepMetrics(old []byte, upTo int) (kept []byte, losses []float64, logged int) {
	losses = []float64{}
	for line := range bytes.Lines(old) {
		var l struct {
			Step int
			Loss *float64
		}
		if json.Unmarshal(line, &l) != nil || l.Step > upTo {
			continue
		}
		kept = append(kept, line...)
		if l.Loss != nil {
			losses, logged = append(losses, *l.Loss), l.Step
		}
	}
	return kept, losses, logged
}

// write appends a line; flush makes it visible.
func (m *metricsFile) write(line any) error {
	b, err := json.Marshal(line)
	if err != nil {
		return fmt.Errorf("metrics: %w", err)
	}
	m.waiting = append(append(m.waiting, b...), '\n')
	return nil
}

// flush writes the lines out. What could not be written waits.
func (m *metricsFile) flush() error {
	n, err := m.f.Write(m.waiting)
	m.waiting = append(m.waiting[:0], m.waiting[n:]...)
	return err
}

// flushMetrics makes the metrics visible. A run does not end where they cannot
// be written, which is said once: it tries again the next time.
func (t *trainer) flushMetrics() {
	err := t.metrics.flush()
	if err != nil && !t.metrics.failed {
		t.opt.Observer.note(fmt.Sprintf("%s cannot be written for now, training goes on: %v", metricsName, err))
	}
	t.metrics.failed = err != nil
}

// closeMetrics writes what waits, and says what is lost.
func (t *trainer) closeMetrics() error {
	if err := t.metrics.flush(); err != nil {
		t.opt.Observer.note(fmt.Sprintf("%s lacks its last %d lines: %v", metricsName, bytes.Count(t.metrics.waiting, []byte{'\n'}), err))
	}
	return t.metrics.f.Close()
}
