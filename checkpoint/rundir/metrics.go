package rundir

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"github.com/berth-ml/berth/engine/osfile"
)

// StepLine is a logged step in metrics.jsonl.
type StepLine struct {
	Step  int     `json:"step"`
	Epoch int     `json:"epoch"`
	Loss  float64 `json:"loss"`
}

// EpochLine is an epoch's end in metrics.jsonl.
type EpochLine struct {
	Epoch         int      `json:"epoch"`
	Step          int      `json:"step"`
	TrainLoss     *float64 `json:"train_loss,omitempty"`
	TrainAccuracy *float64 `json:"train_accuracy,omitempty"`
	ValLoss       *float64 `json:"val_loss,omitempty"`
	ValAccuracy   *float64 `json:"val_accuracy,omitempty"`
	RMSE          *float64 `json:"rmse,omitempty"` // of the validation
	SamplesPerS   float64  `json:"samples_per_s"`
}

// Metrics is metrics.jsonl: a line per logged step and a line per epoch. A run
// does not end where it cannot be written: lines wait for the next Flush.
type Metrics struct {
	f       *os.File
	note    func(string)
	waiting []byte // lines to write
	failed  bool   // the newest Flush did, which was said
}

// openMetrics opens the file for appending, without the lines beyond a step: a
// resumed run does those steps again. It returns the losses that stay, never
// nil, and the last step of them.
func openMetrics(path string, upTo int, note func(string)) (m *Metrics, losses []float64, logged int, err error) {
	old, err := osfile.Read(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, nil, 0, err
	}
	kept, losses, logged := keepMetrics(old, upTo)
	if !bytes.HasPrefix(old, kept) {
		if err := replace(path, kept); err != nil {
			return nil, nil, 0, err
		}
	}
	f, err := osfile.Open(path, os.O_RDWR|os.O_APPEND|os.O_CREATE)
	if err != nil {
		return nil, nil, 0, err
	}
	err = f.Truncate(int64(len(kept))) // which a full disk allows
	if err == nil {
		_, err = f.Seek(0, io.SeekEnd)
	}
	if err != nil {
		return nil, nil, 0, errors.Join(err, f.Close())
	}
	return &Metrics{f: f, note: note}, losses, logged, nil
}

// keepMetrics keeps the lines of steps up to a step. A line that a crash cut
// off is dropped.
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

// Write appends a StepLine or an EpochLine; Flush makes it visible.
func (m *Metrics) Write(line any) error {
	b, err := json.Marshal(line)
	if err != nil {
		return fmt.Errorf("metrics: %w", err)
	}
	m.waiting = append(append(m.waiting, b...), '\n')
	return nil
}

// Flush writes the lines out. Where that fails they wait, which is noted once.
func (m *Metrics) Flush() {
	err := m.flush()
	if err != nil && !m.failed {
		m.note(fmt.Sprintf("%s cannot be written for now, training goes on: %v", MetricsName, err))
	}
	m.failed = err != nil
}

func (m *Metrics) flush() error {
	n, err := m.f.Write(m.waiting)
	m.waiting = append(m.waiting[:0], m.waiting[n:]...)
	return err
}

// close writes the lines that wait, and notes how many are lost.
func (m *Metrics) close() error {
	if err := m.flush(); err != nil {
		m.note(fmt.Sprintf("%s lacks its last %d lines: %v", MetricsName, bytes.Count(m.waiting, []byte{'\n'}), err))
	}
	return m.f.Close()
}
