package exposition_test

import (
	"strings"
	"testing"

	"github.com/berth-ml/berth/cmd/trainer/internal/exposition"
)

// Labels and help texts have the escapes of the text format of Prometheus, and no others. A histogram's buckets add up.
func TestPage(t *testing.T) {
	var text strings.Builder
	p := exposition.Page{W: &text, Prefix: "x_"}
	p.One("bytes", exposition.Gauge, "All \\ of\nthem.", 1<<40)
	p.Begin("jobs", exposition.Gauge, "Jobs.")
	p.Value("jobs", 0.5, "name", "a\"b\\c\n\u200bé\xff", "state", "running")
	p.Begin("seconds", exposition.Histogram, "Times.")
	p.Histogram("seconds", []float64{0.5, 2}, []int64{1, 2, 3}, 20.25, "path", "/")
	const want = `# HELP x_bytes All \\ of\nthem.
# TYPE x_bytes gauge
x_bytes 1.099511627776e+12
# HELP x_jobs Jobs.
# TYPE x_jobs gauge
x_jobs{name="a\"b\\c\n` + "\u200bé" + `?",state="running"} 0.5
# HELP x_seconds Times.
# TYPE x_seconds histogram
x_seconds_bucket{path="/",le="0.5"} 1
x_seconds_bucket{path="/",le="2"} 3
x_seconds_bucket{path="/",le="+Inf"} 6
x_seconds_sum{path="/"} 20.25
x_seconds_count{path="/"} 6
`
	if text.String() != want {
		t.Errorf("%s\nwant\n%s", &text, want)
	}
}
