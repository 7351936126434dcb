package configs

import (
	"fmt"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/berth-ml/berth/engine/metrics"
)

// MetricsAll in Train.Metrics stands for every metric that the model has, but for those
// that repeat others or would take long.
const MetricsAll = "all"

// ValPrefix begins the names of a boundary's metrics, which are over the validation part.
const ValPrefix = "val_"

// metricNames is the names of metrics. nil is auto.
type metricNames struct{}

func (metricNames) expect() string {
	return "auto, all, or a list of metrics such as [f1, auc]"
}

// longestMetrics bounds the bytes of train.metrics: its numbers fit a line of
// metrics.jsonl, which a resumed run reads.
const longestMetrics = 40 << 10

// checkMetrics refuses names that are too many for a line.
func (d *decoder) checkMetrics(n *yaml.Node, path string, names []string) {
	const number = 28 // bytes of a number and its punctuation
	bytes := 0
	for _, name := range names {
		bytes += len(ValPrefix) + len(name) + number
	}
	if bytes > longestMetrics {
		d.fail(d.pos(n), path, "got %d names, more than a line of metrics.jsonl has room for; name at most %d", len(names), len(names)*longestMetrics/bytes)
	}
}

func (m metricNames) decode(d *decoder, n *yaml.Node, path string, dst any) {
	out := dst.(*[]string)
	switch {
	case n.Kind == yaml.ScalarNode && n.Value == "auto":
		*out = nil
	case n.Kind == yaml.ScalarNode && n.Value == MetricsAll:
		*out = []string{MetricsAll}
	case n.Kind == yaml.ScalarNode && !isNull(n): // f1, or f1,auc from a flag
		*out = strings.Split(n.Value, ",")
		for _, name := range *out {
			if _, known := metrics.Find(name); !known {
				d.mismatch(n, path, m.expect()+nearMetric(name, ""))
				return
			}
		}
		d.checkMetrics(n, path, *out)
	case n.Kind == yaml.SequenceNode:
		*out = make([]string, len(n.Content))
		for i, c := range n.Content {
			if _, known := metrics.Find(c.Value); c.Kind != yaml.ScalarNode || !known {
				expected := nearMetric(c.Value, "")
				if expected == "" {
					expected = ": " + metricsOf(metrics.Task{})
				}
				d.mismatch(c, fmt.Sprintf("%s[%d]", path, i), "the name of a metric"+expected)
			}
			(*out)[i] = c.Value
		}
		d.checkMetrics(n, path, *out)
	default:
		d.mismatch(n, path, m.expect())
	}
}

func (metricNames) encode(src any, _ func(*key) bool) *yaml.Node {
	switch names := *src.(*[]string); {
	case names == nil:
		return plain("auto")
	case slices.Equal(names, []string{MetricsAll}):
		return plain(MetricsAll)
	default:
		return strs(names)
	}
}

// metricName is a boundary's metric that ranks weights.
type metricName struct{}

func (metricName) expect() string { return "val_loss, or val_ before a metric, such as val_f1" }

func (m metricName) decode(d *decoder, n *yaml.Node, path string, dst any) {
	if n.Kind != yaml.ScalarNode || !ranks(n.Value) {
		near := nearMetric(n.Value, ValPrefix)
		if near == "" {
			near = "; the metrics are " + metricsThatRank() + ", and of one class or label, by its number, such as f1_class_0"
		}
		d.mismatch(n, path, m.expect()+near)
		return
	}
	*dst.(*string) = n.Value
}

func (metricName) encode(src any, _ func(*key) bool) *yaml.Node { return plain(*src.(*string)) }

// ranks reports whether a name is that of a number at boundaries that ranks weights.
func ranks(name string) bool {
	m, known := metrics.Find(MetricOf(name))
	return name == "val_loss" || strings.HasPrefix(name, ValPrefix) && known && m.Value != nil
}

// metricsThatRank lists the metrics that rank weights, except the ones of a single class or label.
func metricsThatRank() string {
	return strings.Join(slices.DeleteFunc(metrics.Names(metrics.Task{}), func(name string) bool {
		return ofOne(name) || !ranks(ValPrefix+name)
	}), ", ")
}

// MetricOf is the metric behind the name of a boundary's value: "f1" of "val_f1".
func MetricOf(name string) string { return strings.TrimPrefix(name, ValPrefix) }

// nearMetric gives `; did you mean "f1"?` for a word that is near a metric, or nothing.
func nearMetric(word, prefix string) string {
	var names []string
	for _, name := range metrics.Names(metrics.Task{}) {
		if prefix == "" || name != "confusion" {
			names = append(names, prefix+name)
		}
	}
	if prefix == "" {
		names = append(names, "auto", MetricsAll)
	} else {
		names = append(names, "val_loss")
	}
	near := nearest(word, names)
	if slices.Contains(names, prefix+word) {
		near = prefix + word
	}
	if near == "" {
		return ""
	}
	if ofOne(near) { // N stands for a number
		return fmt.Sprintf("; name a class or label by its number, from 0, as eval prints it, such as %q", strings.TrimSuffix(near, "N")+"0")
	}
	return fmt.Sprintf("; did you mean %q?", near)
}

// metricsOf lists the metrics that fit a task, except the ones of a single class or label.
func metricsOf(t metrics.Task) string {
	return strings.Join(slices.DeleteFunc(metrics.Names(t), ofOne), ", ")
}

// ofOne reports whether a name stands for the metrics of single classes or labels.
func ofOne(name string) bool {
	return strings.HasSuffix(name, "_class_N") || strings.HasSuffix(name, "_label_N")
}
