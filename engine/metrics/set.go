package metrics

import (
	"fmt"
	"slices"

	"github.com/berth-ml/berth/internal/panics"
)

// Set is metrics that are computed together.
type Set struct {
	Metrics    []Metric
	Statistics []*Statistic // that they need, each once
	// What else of [Collected] one of them needs.
	Scores, Spread, Bytes bool
}

// Choose is the metrics of some names, for a task whose sizes are known. It fails with
// ErrMetric where the task lacks one.
func Choose(t Task, names []string) (s Set, err error) {
	for _, name := range names {
		m, known := Find(name)
		if !known {
			panic("BUG: unknown metric " + name)
		}
		if err := m.guard("Check", func() error { return m.check(t) }); err != nil {
			return s, err
		}
		s.add(m)
	}
	return s, nil
}

// Usual are the metrics that a task has unless others are named.
func Usual(t Task) (names []string) {
	for _, m := range rows() {
		if m.Usual && m.check(t) == nil {
			names = append(names, m.Name)
		}
	}
	return names
}

// All lists the metrics that `all` stands for: all that fit the task, except ones that
// repeat others or would take long. It fails where a metric of the program panics.
func All(t Task) (names []string, err error) {
	for _, m := range rows() {
		quick := true
		err := m.guard("Check or Quick", func() error {
			quick = m.check(t) == nil && (m.Quick == nil || m.Quick(t)) && (!m.Scores || t.scores() <= quickScores)
			return nil
		})
		if err != nil {
			return nil, err
		}
		if quick {
			names = append(names, m.Name)
		}
	}
	if t.Kind == Classes && t.Classes > topOfAll {
		names = append(names, topName(topOfAll))
	}
	return names, nil
}

// add adds a metric, once.
func (s *Set) add(m Metric) {
	if slices.ContainsFunc(s.Metrics, func(x Metric) bool { return x.Name == m.Name }) {
		return
	}
	s.Metrics = append(s.Metrics, m)
	s.Scores, s.Spread, s.Bytes = s.Scores || m.Scores, s.Spread || m.Spread, s.Bytes || m.Bytes
	for _, x := range m.Needs {
		if !slices.Contains(s.Statistics, x) {
			s.Statistics = append(s.Statistics, x)
		}
	}
}

// Has reports whether a metric is among them.
func (s *Set) Has(name string) bool {
	return slices.ContainsFunc(s.Metrics, func(m Metric) bool { return m.Name == name })
}

// Values computes the metrics, by name. NaN stands for those that are not defined. It
// fails where a metric of the program panics.
func (s *Set) Values(c *Collected) (Values, error) {
	values := make(Values, len(s.Metrics))
	for _, m := range s.Metrics {
		if m.Value == nil {
			continue
		}
		err := m.guard("Value", func() error {
			values[m.Name] = m.Value(c)
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	return values, nil
}

// guard calls functions of a metric. A panic of one that the program added is an error;
// in one of ours it is a defect.
func (m *Metric) guard(functions string, call func() error) (err error) {
	if m.Version > 0 {
		defer func() {
			if r := recover(); r != nil {
				err = fmt.Errorf("the metric %s version %d panicked in %s: %s", m.Name, m.Version, functions, panics.Text(r))
			}
		}()
	}
	return call()
}
