package serve

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/berth-ml/berth"
)

// metrics counts requests, and adds up what the services of all weights have done.
type metrics struct {
	repairs, reloads, failedReloads atomic.Int64
	underWay                        atomic.Int64 // requests

	mu       sync.Mutex
	requests map[answered]int64
	errors   map[string]int64 // by kind
	times    map[string]*histogram
	live     []*berth.Service
	ended    berth.ServiceStats // of those that are not live any more
}

// answered are requests of a path that got a status.
type answered struct {
	path   string
	status int
}

// bounds are the upper bounds of the histogram's buckets, in seconds.
var bounds = []float64{0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30}

// histogram counts times. counts has one element more than bounds.
type histogram struct {
	counts []int64
	sum    float64 // seconds
}

func newMetrics() *metrics {
	return &metrics{requests: map[answered]int64{}, errors: map[string]int64{}, times: map[string]*histogram{}}
}

// count counts a request that has ended. kind is that of its problem; "": it has none.
func (c *metrics) count(path string, status int, kind string, took time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.requests[answered{path, status}]++
	if kind != "" {
		c.errors[kind]++
	}
	h := c.times[path]
	if h == nil {
		h = &histogram{counts: make([]int64, len(bounds)+1)}
		c.times[path] = h
	}
	i, _ := slices.BinarySearch(bounds, took.Seconds())
	h.counts[i]++
	h.sum += took.Seconds()
}

// begin counts a service in.
func (c *metrics) begin(s *berth.Service) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.live = append(c.live, s)
}

// end keeps the numbers of a service that has ended.
func (c *metrics) end(s *berth.Service) {
	c.mu.Lock()
	defer c.mu.Unlock()
	i := slices.Index(c.live, s)
	c.live = slices.Delete(c.live, i, i+1)
	add(&c.ended, s.Stats())
}

// add adds up what services have done.
func add(sum *berth.ServiceStats, x berth.ServiceStats) {
	if sum.Batches == nil {
		sum.Batches = map[int]int64{}
	}
	for n, count := range x.Batches {
		sum.Batches[n] += count
	}
	sum.Samples += x.Samples
	sum.Expired += x.Expired
	sum.Tokens += x.Tokens
	sum.Programs += x.Programs
	sum.WeightBytes += x.WeightBytes
	sum.Waiting += x.Waiting
	sum.Texts += x.Texts
	sum.WaitingTexts += x.WaitingTexts
}

// stats is what all services have done.
func (c *metrics) stats() (sum berth.ServiceStats) {
	add(&sum, c.ended)
	sum.Waiting, sum.Texts, sum.WaitingTexts = 0, 0, 0
	for _, s := range c.live {
		add(&sum, s.Stats())
	}
	return sum
}

// write writes all numbers in the text format of Prometheus.
func (c *metrics) write(w io.Writer, parts []berth.ServicePart, memory, most int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	st, p := c.stats(), page{w}
	p.begin("requests_total", "counter", "Requests that have ended.")
	for _, k := range slices.SortedFunc(maps.Keys(c.requests), answered.compare) {
		p.value("requests_total", fmt.Sprintf(`{path=%q,code="%d"}`, k.path, k.status), float64(c.requests[k]))
	}
	p.begin("errors_total", "counter", "Requests without an answer, by the kind of the error.")
	for _, kind := range slices.Sorted(maps.Keys(c.errors)) {
		p.value("errors_total", fmt.Sprintf(`{kind=%q}`, kind), float64(c.errors[kind]))
	}
	p.begin("request_seconds", "histogram", "Time from a request to its answer.")
	for _, path := range slices.Sorted(maps.Keys(c.times)) {
		p.histogram("request_seconds", path, c.times[path])
	}
	p.begin("batches_total", "counter", "Batches that were computed, by size: the number of samples, rounded up.")
	for _, n := range slices.Sorted(maps.Keys(st.Batches)) {
		p.value("batches_total", fmt.Sprintf(`{size="%d"}`, n), float64(st.Batches[n]))
	}
	p.one("requests_under_way", "gauge", "Requests that are being handled.", float64(c.underWay.Load()))
	p.one("queue_samples", "gauge", "Samples that wait for a batch.", float64(st.Waiting))
	p.one("texts_under_way", "gauge", "Texts that are being generated.", float64(st.Texts))
	p.one("queue_texts", "gauge", "Texts that wait to be generated.", float64(st.WaitingTexts))
	p.one("memory_bytes", "gauge", "Bytes of memory that are taken for requests.", float64(memory))
	p.one("memory_limit_bytes", "gauge", "Bytes of memory that may be taken for requests.", float64(most))
	p.one("samples_total", "counter", "Samples that were computed.", float64(st.Samples))
	p.one("tokens_total", "counter", "Tokens that were generated.", float64(st.Tokens))
	p.one("expired_total", "counter", "Requests that ended before all of their samples were in a batch.", float64(st.Expired))
	p.one("programs_total", "counter", "Programs that were compiled: one for each size of a batch and of a step of texts, and one that reads prompts.", float64(st.Programs))
	p.one("weight_bytes_total", "counter", "Bytes of weights that were copied to the devices.", float64(st.WeightBytes))
	p.one("reloads_total", "counter", "Newer checkpoints that were loaded.", float64(c.reloads.Load()))
	p.one("failed_reloads_total", "counter", "Newer checkpoints that could not be loaded.", float64(c.failedReloads.Load()))
	p.one("device_failures_total", "counter", "Failures of devices after which the model was loaded again.", float64(c.repairs.Load()))
	if len(parts) == 0 {
		parts = []berth.ServicePart{{}}
	}
	p.parts("weight_bytes", "Bytes of the weights in use that the devices have by the plan; {adapter=\"\"} is the base, once for all adapters.", parts, func(x berth.ServicePart) float64 { return float64(x.Bytes) })
	p.parts("checkpoint", "ID of the checkpoint in use; 0: the weights are of a file, or none are loaded.", parts, func(x berth.ServicePart) float64 { return float64(x.Used.ID) })
	p.parts("checkpoint_step", "Training step of the checkpoint in use.", parts, func(x berth.ServicePart) float64 { return float64(x.Used.Step) })
}

// compare orders by path, then by status.
func (a answered) compare(b answered) int {
	if a.path != b.path {
		return map[bool]int{true: -1, false: 1}[a.path < b.path]
	}
	return a.status - b.status
}

// page writes metrics. A client that has gone reads nothing.
type page struct{ w io.Writer }

// begin describes a metric.
func (p page) begin(name, kind, help string) {
	fmt.Fprintf(p.w, "# HELP berth_serve_%s %s\n# TYPE berth_serve_%s %s\n", name, help, name, kind)
}

// value writes a number of a metric.
func (p page) value(name, labels string, v float64) {
	fmt.Fprintf(p.w, "berth_serve_%s%s %s\n", name, labels, strconv.FormatFloat(v, 'g', -1, 64))
}

// one is a metric of one number.
func (p page) one(name, kind, help string, v float64) {
	p.begin(name, kind, help)
	p.value(name, "", v)
}

// labelText escapes the value of a label, as the text format of Prometheus does.
var labelText = strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`)

// parts is a metric of a number for the weights in use, and where there are adapters, for those of each.
func (p page) parts(name, help string, parts []berth.ServicePart, v func(berth.ServicePart) float64) {
	p.begin(name, "gauge", help)
	for _, x := range parts {
		labels := ""
		if len(parts) > 1 {
			labels = `{adapter="` + labelText.Replace(x.Adapter) + `"}`
		}
		p.value(name, labels, v(x))
	}
}

// histogram writes the times of a path.
func (p page) histogram(name, path string, h *histogram) {
	sum := int64(0)
	for i, n := range h.counts {
		sum += n
		le := "+Inf"
		if i < len(bounds) {
			le = strconv.FormatFloat(bounds[i], 'g', -1, 64)
		}
		p.value(name+"_bucket", fmt.Sprintf(`{path=%q,le=%q}`, path, le), float64(sum))
	}
	p.value(name+"_sum", fmt.Sprintf(`{path=%q}`, path), h.sum)
	p.value(name+"_count", fmt.Sprintf(`{path=%q}`, path), float64(sum))
}
