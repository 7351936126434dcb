package metrics

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

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

// Kind is the kind of a model's answers.
type Kind uint8

// The kinds of answers.
const (
	Classes Kind = iota + 1 // each target is one of some classes
	Bits                    // each number of a target is 0 or 1, with loss bce
	Numbers                 // targets are numbers
)

// Task describes the answers that are judged. Zero fields are not known yet.
type Task struct {
	Kind    Kind
	Classes int   // Classes: those that the model tells apart
	Outputs int   // Bits, Numbers: numbers in a sample's target
	Answers int64 // over all samples: positions of a sequence and numbers of a target count each
	Right   bool  // each answer is right or wrong: there is an accuracy
	Text    bool  // the classes are the tokens of a text
}

// Metric is a row of the table.
type Metric struct {
	Name string
	// Version counts the changes of a metric that a Go program added; 0 for those of
	// this module.
	Version int
	Doc     string // one sentence, for documents
	Lower   bool   // a lower value is better
	Kinds   []Kind // the answers that it judges; nil: all
	Right   bool   // it judges answers that are right or wrong
	Texts   bool   // it judges texts alone
	Needs   []*Statistic
	Scores  bool // it needs each answer's scores

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
		return refuse("%s does not judge such answers", m.Name)
	}
	for _, s := range m.Needs {
		if s.Cells != nil && t.Answers > math.MaxInt32 {
			return refuse("%s counts up to %s answers, and there are %s: evaluate fewer samples, or leave it out", m.Name, units.Thousands(math.MaxInt32), units.Thousands(t.Answers))
		}
	}
	if n := t.scores(); m.Scores && n > MaxScores {
		return refuse("%s takes up to %s scores, and there are %s: evaluate fewer samples, or leave it out", m.Name, units.Thousands(MaxScores), units.Thousands(n))
	}
	if m.Check == nil {
		return nil
	}
	if err := m.Check(t); err != nil {
		return refuse("%s: %v", m.Name, err)
	}
	return nil
}

// MaxScores is the most scores that metrics are computed from.
const MaxScores = 100_000_000

// quickScores is the most scores for which `all` includes metrics that need them.
const quickScores = 10_000_000

// scores is the number of scores of a task: with two classes, one for each answer.
func (t Task) scores() int64 {
	if t.Kind == Classes && t.Classes > 2 {
		return t.Answers * int64(t.Classes)
	}
	return t.Answers
}

// table has every metric but those of numbered classes.
var table = slices.Concat(classMetrics, rankMetrics, numberMetrics, textMetrics)

// families are the metrics with a number in their name.
var families = slices.Concat(classFamilies, rankFamilies)

// family is the metrics whose names are a prefix and a number.
type family struct {
	prefix string
	least  int // number
	doc    string
	metric func(n int) Metric
}

// Find is the metric of a name.
func Find(name string) (Metric, bool) {
	for _, m := range table {
		if m.Name == name {
			return m, true
		}
	}
	for _, f := range families {
		text, ok := strings.CutPrefix(name, f.prefix)
		if n, err := strconv.Atoi(text); ok && err == nil && n >= f.least && strconv.Itoa(n) == text {
			m := f.metric(n)
			m.Name, m.Doc = name, f.doc
			return m, true
		}
	}
	return Metric{}, false
}

// Names lists the metrics that fit a task, as far as its kind goes: those of numbered
// classes with N for the number. The zero Task has all.
func Names(t Task) (names []string) {
	for _, m := range table {
		if t.Kind == 0 || m.Fits(t) {
			names = append(names, m.Name)
		}
	}
	for _, f := range families {
		if m := f.metric(f.least); t.Kind == 0 || m.Fits(t) {
			names = append(names, f.prefix+"N")
		}
	}
	return names
}

// Doc is the sentence about a metric that Names lists.
func Doc(name string) string {
	for _, f := range families {
		if f.prefix+"N" == name {
			return f.doc
		}
	}
	m, _ := Find(name)
	return m.Doc
}
