package rundir

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/berth-ml/berth/engine/osfile"
)

// Record is a line of a run's metrics.jsonl, read back.
type Record struct {
	Step, Epoch int
	Boundary    bool               // of a boundary, not of a step
	Time        time.Time          // of a boundary; zero: it has none
	Values      map[string]float64 // the other numbers, by the names of their fields
	Text        []byte             // the line; valid until the call ends that is given the record
}

// ReadMetrics gives each line of a run folder's metrics.jsonl to take, in order. A
// run may train meanwhile. It returns the number of lines that are damaged, which
// take does not see; the last line may still be written, and is not among them.
func ReadMetrics(ctx context.Context, dir string, take func(Record) error) (damaged int, err error) {
	f, err := osfile.Open(filepath.Join(dir, MetricsName), os.O_RDONLY)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	err = eachLine(ctx, f, func(line []byte) error {
		r, ok := parseRecord(line)
		switch {
		case ok:
			return take(r)
		case len(bytes.TrimSpace(line)) > 0 && bytes.HasSuffix(line, newline) || line == nil:
			damaged++
		}
		return nil
	})
	return damaged, err
}

// LastBoundary is the newest boundary of a run folder's metrics.jsonl, of which it
// reads the end alone; ok is false where that has none.
func LastBoundary(dir string) (r Record, ok bool) {
	const end = 16 * longestLine
	f, err := osfile.Open(filepath.Join(dir, MetricsName), os.O_RDONLY)
	if err != nil {
		return r, false
	}
	defer f.Close()
	if _, err := f.Seek(-end, io.SeekEnd); err != nil { // the file is shorter
		if _, err := f.Seek(0, io.SeekStart); err != nil {
			return r, false
		}
	}
	_ = eachLine(context.Background(), f, func(line []byte) error {
		if next, whole := parseRecord(line); whole && next.Boundary {
			next.Text = bytes.Clone(next.Text)
			r, ok = next, true
		}
		return nil
	})
	return r, ok
}

// parseRecord reads a line; ok is false if a run has not written it.
func parseRecord(line []byte) (r Record, ok bool) {
	var fields map[string]any
	if json.Unmarshal(line, &fields) != nil {
		return r, false
	}
	step, isStep := fields["step"].(float64)
	epoch, isEpoch := fields["epoch"].(float64)
	if !isStep || !isEpoch || step < 0 || step > maxStep || epoch < 0 || epoch > maxStep {
		return r, false
	}
	_, ofStep := fields["loss"]
	r = Record{Step: int(step), Epoch: int(epoch), Boundary: !ofStep, Values: map[string]float64{}, Text: line}
	if text, ok := fields["time"].(string); ok {
		r.Time, _ = time.Parse(time.RFC3339, text)
	}
	for name, v := range fields {
		if x, number := v.(float64); number && name != "step" && name != "epoch" {
			r.Values[strings.ToValidUTF8(name, "?")] = x
		}
	}
	return r, true
}

// maxStep is a number of steps beyond that of any run.
const maxStep = 1 << 53
