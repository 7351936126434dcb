package charts

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"path/filepath"

	"github.com/berth-ml/berth/checkpoint/rundir"
	"github.com/berth-ml/berth/cmd/trainer/internal/cli"
	"github.com/berth-ml/berth/engine/osfile"
)

// history is what a run has measured.
type history struct {
	name       string
	steps      map[string]*curve // of each logged step, by field of metrics.jsonl
	boundaries map[string]*curve
	perEpoch   float64 // steps of an epoch; 0: not known yet
	confusion  *matrix // the newest; nil: it has none
	left       int     // fields beyond the most that a history has
	damaged    int     // lines that could not be read
}

const (
	mostFields = 64    // of a history; a file with more is none of a run
	largest    = 1e100 // a larger number cannot be drawn; one below 1/largest is 0
)

// readHistory reads the metrics.jsonl of a run folder.
func readHistory(ctx context.Context, dir string) (*history, error) {
	dir = osfile.Resolve(dir)
	h := &history{name: filepath.ToSlash(filepath.Clean(dir)), steps: map[string]*curve{}, boundaries: map[string]*curve{}}
	var epochs rundir.EpochLength
	var err error
	h.damaged, err = rundir.ReadMetrics(ctx, dir, func(r rundir.Record) error {
		epochs.Take(r.Step, r.Epoch)
		return h.take(r)
	})
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, cli.Usagef("%s has no %s: name the folder of a run that has begun, such as runs/digits", dir, rundir.MetricsName)
	case errors.Is(err, rundir.ErrNotPlain):
		return nil, cli.Usage(err)
	case err != nil:
		return nil, err
	}
	h.perEpoch = epochs.Steps()
	if h.perEpoch == 0 || h.confusion != nil {
		s := rundir.Summarize(dir) // the checkpoints know more
		if h.perEpoch == 0 {
			h.perEpoch = float64(s.EpochSteps)
		}
		h.confusion.name(s.Classes)
	}
	for _, fields := range []map[string]*curve{h.steps, h.boundaries} {
		for _, c := range fields {
			c.end()
		}
	}
	return h, nil
}

// take adds a line of metrics.jsonl.
func (h *history) take(r rundir.Record) error {
	to := h.steps
	if r.Boundary {
		to = h.boundaries
		h.confusion = confusionOf(r.Text, h.confusion)
	}
	for name, v := range r.Values {
		c := to[name]
		switch {
		case math.Abs(v) > largest:
			if c != nil {
				c.miss()
			}
			continue
		case c == nil && len(to) == mostFields:
			h.left++
			continue
		case c == nil:
			c = &curve{}
			to[name] = c
		}
		if math.Abs(v) < 1/largest {
			v = 0
		}
		c.add(r.Step, v)
	}
	for _, name := range r.Undefined() {
		if c := to[name]; c != nil {
			c.miss()
		}
	}
	return nil
}

// confusionOf is the confusion matrix of a boundary's line, or the one before it.
func confusionOf(line []byte, before *matrix) *matrix {
	var fields struct {
		Confusion [][]float64 `json:"val_confusion"`
	}
	if json.Unmarshal(line, &fields) != nil || len(fields.Confusion) == 0 {
		return before
	}
	m, err := newMatrix(fields.Confusion, nil)
	if err != nil {
		return before
	}
	return m
}

// notes say what of a run is not drawn.
func (h *history) notes() (list []string) {
	if h.damaged > 0 {
		list = append(list, fmt.Sprintf("%s: %d damaged lines of %s are left out", h.name, h.damaged, rundir.MetricsName))
	}
	if h.left > 0 {
		list = append(list, fmt.Sprintf("%s: of the fields in %s, only %d are drawn", h.name, rundir.MetricsName, mostFields))
	}
	return list
}
