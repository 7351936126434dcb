package metrics

import (
	"strconv"
	"strings"

	"github.com/berth-ml/berth/engine/registry"
)

// table has every metric without a number in its name: see families.
var table []Metric

// rows is the table, once all metrics are in it: see [Register].
func rows() []Metric {
	registry.Seal()
	return table
}

// families are the metrics with a number in their name.
var families []family

// family is the metrics whose names are a prefix and a number.
type family struct {
	prefix string
	least  int // number
	doc    string
	metric func(n int) Metric
}

// Find is the metric of a name.
func Find(name string) (Metric, bool) {
	for _, m := range rows() {
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

// Names lists the metrics that fit a task's kind. A metric of a numbered class has N for the
// number, as in f1_class_N. The zero Task has all.
func Names(t Task) (names []string) {
	for _, m := range rows() {
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
