package exposition

import (
	"fmt"
	"io"
	"strconv"
	"strings"
)

// ContentType is that of a page.
const ContentType = "text/plain; version=0.0.4; charset=utf-8"

// The kinds of metrics.
const (
	Counter   = "counter"
	Gauge     = "gauge"
	Histogram = "histogram"
)

// Page writes metrics whose names begin with Prefix to W. A client that has gone reads nothing, so errors of W are
// passed over.
type Page struct {
	W      io.Writer
	Prefix string
}

// The escapes of the format: in the value of a label, and in a help text.
var (
	labelText = strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`)
	helpText  = strings.NewReplacer(`\`, `\\`, "\n", `\n`)
)

// Begin describes a metric. Its values follow.
func (p Page) Begin(name, kind, help string) {
	fmt.Fprintf(p.W, "# HELP %s%s %s\n# TYPE %s%s %s\n", p.Prefix, name, helpText.Replace(help), p.Prefix, name, kind)
}

// Value writes a number of a metric. labels are names and values in turn.
func (p Page) Value(name string, v float64, labels ...string) {
	var b strings.Builder
	for i := 0; i < len(labels); i += 2 {
		b.WriteByte("{,"[min(i, 1)])
		b.WriteString(labels[i] + `="` + labelText.Replace(strings.ToValidUTF8(labels[i+1], "?")) + `"`)
	}
	if len(labels) > 0 {
		b.WriteByte('}')
	}
	fmt.Fprintf(p.W, "%s%s%s %s\n", p.Prefix, name, &b, strconv.FormatFloat(v, 'g', -1, 64))
}

// One is a metric of one number.
func (p Page) One(name, kind, help string, v float64) {
	p.Begin(name, kind, help)
	p.Value(name, v)
}

// Histogram writes the counts of buckets with ascending upper bounds, and their sum. counts has one element more than
// bounds, and counts each value once.
func (p Page) Histogram(name string, bounds []float64, counts []int64, sum float64, labels ...string) {
	total := int64(0)
	for i, n := range counts {
		total += n
		le := "+Inf"
		if i < len(bounds) {
			le = strconv.FormatFloat(bounds[i], 'g', -1, 64)
		}
		p.Value(name+"_bucket", float64(total), append(labels[:len(labels):len(labels)], "le", le)...)
	}
	p.Value(name+"_sum", sum, labels...)
	p.Value(name+"_count", float64(total), labels...)
}
