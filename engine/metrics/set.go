package metrics

import "slices"

// Set is metrics that are computed together.
type Set struct {
	Metrics    []Metric
	Statistics []*Statistic // that they need, each once
	Scores     bool         // each answer's scores are needed, too
}

// Choose is the metrics of some names, for a task whose sizes are known. It fails with
// ErrMetric where the task lacks one.
func Choose(t Task, names []string) (s Set, err error) {
	for _, name := range names {
		m, known := Find(name)
		if !known {
			panic("BUG: unknown metric " + name)
		}
		if err := m.check(t); err != nil {
			return s, err
		}
		s.add(m)
	}
	return s, nil
}

// Usual are the metrics that a task has unless others are named: they cost next to
// nothing.
func Usual(t Task) (names []string) {
	for _, name := range []string{"accuracy", "rmse", "mae", "r2", "perplexity"} {
		if m, _ := Find(name); m.check(t) == nil {
			names = append(names, name)
		}
	}
	return names
}

// All is the names of the metrics that a task has, but for those that repeat others or
// would take long.
func All(t Task) (names []string) {
	for _, m := range rows() {
		if m.check(t) == nil && (m.Quick == nil || m.Quick(t)) && (!m.Scores || t.scores() <= quickScores) {
			names = append(names, m.Name)
		}
	}
	if t.Kind == Classes && t.Classes > topOfAll {
		names = append(names, topName(topOfAll))
	}
	return names
}

// add adds a metric, once.
func (s *Set) add(m Metric) {
	if slices.ContainsFunc(s.Metrics, func(x Metric) bool { return x.Name == m.Name }) {
		return
	}
	s.Metrics = append(s.Metrics, m)
	s.Scores = s.Scores || m.Scores
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

// Values computes the metrics, by name. NaN stands for those that are not defined.
func (s *Set) Values(c *Collected) Values {
	values := make(Values, len(s.Metrics))
	for _, m := range s.Metrics {
		if m.Value != nil {
			values[m.Name] = m.Value(c)
		}
	}
	return values
}
