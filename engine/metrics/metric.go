package metrics

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/berth-ml/berth/internal/units"
)

// ErrMetric is the cause of errors about metrics that cannot be computed.
var ErrMetric = errors.New("metric")

// refusal is an ErrMetric whose text says it all.
type refusal struct{ text string }

func (r refusal) Error() string { return r.text }

func (r refusal) Unwrap() error { return ErrMetric }

// refuse is a refusal of a metric.
func refuse(format string, args ...any) error { return refusal{fmt.Sprintf(format, args...)} }

// Metric is a metric: its name, what it is computed from, and how.
type Metric struct {
	Name string
	// Version counts the changes of a metric that a Go program added; 0 for those of
	// this module.
	Version int
	Doc     string // a sentence for docs/metrics.md
	Lower   bool   // a lower value is better
	Share   bool   // a part of a whole, which people read as a percentage
	Kinds   []Kind // the answers that it judges; nil: all
	Right   bool   // it judges answers that are right or wrong
	Texts   bool   // it judges texts alone
	Usual   bool   // tasks that it fits have it unless others are named: it costs next to nothing
	Needs   []*Statistic
	Scores  bool // it needs Collected.Scores, of classes and bits
	Spread  bool // it needs Collected.Spread, of numbers: evaluations read the targets once more
	Bytes   bool // it needs Collected.Bytes, of texts: evaluations read the text once more

	// Check says why a task has no such metric, which may depend on its sizes. Nil:
	// every task has it.
	Check func(Task) error
	// Quick reports whether `all` includes the metric, where Check allows it. Nil: it
	// does.
	Quick func(Task) bool
	// Value is the metric; NaN where it is not defined.
	Value func(*Collected) float64
}

// Fits reports whether a metric judges the answers of a task, as far as their kind
// goes.
func (m *Metric) Fits(t Task) bool {
	return (m.Kinds == nil || slices.Contains(m.Kinds, t.Kind)) && (t.Right || !m.Right) && (t.Text || !m.Texts)
}

// check says why a task has no such metric.
func (m *Metric) check(t Task) error {
	if !m.Fits(t) {
		return refuse("%s cannot be computed for the outputs of this model: leave it out", m.Name)
	}
	for _, s := range m.Needs {
		if s.Cells != nil && t.Answers > math.MaxInt32 {
			return refuse("%s counts up to %s answers, and there are %s: evaluate fewer samples (a larger data.split), or leave it out", m.Name, units.Thousands(math.MaxInt32), units.Thousands(t.Answers))
		}
	}
	if n := t.scores(); m.Scores && n > MaxScores {
		return refuse("%s takes up to %s scores, and there are %s: evaluate fewer samples (a larger data.split), or leave it out", m.Name, units.Thousands(MaxScores), units.Thousands(n))
	}
	if m.Check == nil {
		return nil
	}
	if err := m.Check(t); err != nil {
		return refuse("%s: %v", m.Name, err)
	}
	return nil
}
