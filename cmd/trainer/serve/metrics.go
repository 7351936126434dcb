package serve

import (
	"errors"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/berth-ml/berth"
	"github.com/berth-ml/berth/cmd/trainer/internal/exposition"
	"github.com/berth-ml/berth/engine/device"
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
	failed   int64              // failures of devices but for those of live services, and for lost
	lost     map[device.ID]bool // devices that were lost since all were opened
}

// answered are requests of a path that got a status.
type answered struct {
	path   string
	status int
}

// upperBounds are those of the histogram's buckets, in seconds.
var upperBounds = []float64{0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30}

// histogram counts times. counts has one element more than upperBounds.
type histogram struct {
	counts []int64
	sum    float64 // seconds
}

func newMetrics() *metrics {
	return &metrics{requests: map[answered]int64{}, errors: map[string]int64{}, times: map[string]*histogram{}, lost: map[device.ID]bool{}}
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
		h = &histogram{counts: make([]int64, len(upperBounds)+1)}
		c.times[path] = h
	}
	i, _ := slices.BinarySearch(upperBounds, took.Seconds())
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
	st := s.Stats()
	add(&c.ended, st)
	c.failed += c.failures(st)
}

// failures counts the operations that failed and so ended copies of the weights of a service, and notes the devices that were
// lost.
func (c *metrics) failures(st berth.ServiceStats) (n int64) {
	for i := range st.Groups {
		if _, known := berth.LossOf(st.Groups[i].Lost); st.Groups[i].Lost != nil && !known {
			n++
		}
		n += c.failure(st.Groups[i].Lost)
	}
	return n
}

// failure is 1 for an error of a device that is not lost. A loss is noted: it may come out several times, where weights are
// loaded and where others answer. Where memory is too little, no device has failed.
func (c *metrics) failure(err error) int64 {
	loss, failed := berth.LossOf(err)
	switch {
	case !failed || lacksMemory(err):
		return 0
	case errors.Is(err, device.ErrLost):
		c.lost[loss.Device] = true
		return 0
	}
	return 1
}

// failedLoad counts an error of loading, if it is the failure of a device.
func (c *metrics) failedLoad(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.failed += c.failure(err)
}

// reopened counts the devices that were lost before all were opened anew: each may be lost again.
func (c *metrics) reopened() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.failed += int64(len(c.lost))
	clear(c.lost)
}

// deviceFailures counts the failures of devices so far.
func (c *metrics) deviceFailures() int64 {
	n := c.failed
	for _, s := range c.live {
		n += c.failures(s.Stats())
	}
	return n + int64(len(c.lost))
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
	for _, g := range x.Groups {
		i := slices.IndexFunc(sum.Groups, func(of berth.ServiceGroupStats) bool { return slices.Equal(of.Devices, g.Devices) })
		if i < 0 {
			sum.Groups = append(sum.Groups, g)
			continue
		}
		of := &sum.Groups[i]
		of.Batches, of.Samples, of.WeightBytes = of.Batches+g.Batches, of.Samples+g.Samples, of.WeightBytes+g.WeightBytes
		of.Texts, of.Tokens = of.Texts+g.Texts, of.Tokens+g.Tokens
	}
}

// stats is what all services have done.
func (c *metrics) stats() (sum berth.ServiceStats) {
	add(&sum, c.ended)
	sum.Waiting, sum.Texts, sum.WaitingTexts = 0, 0, 0
	for i := range sum.Groups {
		sum.Groups[i].Texts = 0
	}
	for _, s := range c.live {
		add(&sum, s.Stats())
	}
	return sum
}

// write writes all numbers in the text format of Prometheus; devices are those to write of.
func (c *metrics) write(w io.Writer, parts []berth.ServicePart, devices []berth.ServiceGroupStats, memory, most int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	st, p := c.stats(), exposition.Page{W: w, Prefix: "berth_serve_"}
	p.Begin("requests_total", exposition.Counter, "Requests that have ended.")
	for _, k := range slices.SortedFunc(maps.Keys(c.requests), answered.compare) {
		p.Value("requests_total", float64(c.requests[k]), "path", k.path, "code", strconv.Itoa(k.status))
	}
	p.Begin("errors_total", exposition.Counter, "Requests without an answer, by the kind of the error.")
	for _, kind := range slices.Sorted(maps.Keys(c.errors)) {
		p.Value("errors_total", float64(c.errors[kind]), "kind", kind)
	}
	p.Begin("request_seconds", exposition.Histogram, "Time from a request to its answer.")
	for _, path := range slices.Sorted(maps.Keys(c.times)) {
		p.Histogram("request_seconds", upperBounds, c.times[path].counts, c.times[path].sum, "path", path)
	}
	p.Begin("batches_total", exposition.Counter, "Batches that were computed, by size: the number of samples, rounded up.")
	for _, n := range slices.Sorted(maps.Keys(st.Batches)) {
		p.Value("batches_total", float64(st.Batches[n]), "size", strconv.Itoa(n))
	}
	p.One("requests_under_way", exposition.Gauge, "Requests that are being handled.", float64(c.underWay.Load()))
	p.One("queue_samples", exposition.Gauge, "Samples that wait for a batch.", float64(st.Waiting))
	p.One("texts_under_way", exposition.Gauge, "Texts that are being generated.", float64(st.Texts))
	p.One("queue_texts", exposition.Gauge, "Texts that wait to be generated.", float64(st.WaitingTexts))
	p.One("memory_bytes", exposition.Gauge, "Bytes of memory that are taken for requests.", float64(memory))
	p.One("memory_limit_bytes", exposition.Gauge, "Bytes of memory that may be taken for requests, beside that of connections.", float64(most))
	p.One("samples_total", exposition.Counter, "Samples that were computed.", float64(st.Samples))
	p.One("tokens_total", exposition.Counter, "Tokens that were generated.", float64(st.Tokens))
	p.One("expired_total", exposition.Counter, "Requests that ended before all of their samples were in a batch.", float64(st.Expired))
	p.One("programs_total", exposition.Counter, "Programs that were compiled: one for each size of a batch and of a step of texts, and one that reads prompts.", float64(st.Programs))
	p.One("weight_bytes_total", exposition.Counter, "Bytes of weights that were copied to the devices.", float64(st.WeightBytes))
	p.One("reloads_total", exposition.Counter, "Newer checkpoints that were loaded.", float64(c.reloads.Load()))
	p.One("failed_reloads_total", exposition.Counter, "Newer checkpoints that could not be loaded.", float64(c.failedReloads.Load()))
	p.One("device_failures_total", exposition.Counter, "Failures of devices: each that ended a copy of the weights, and each while weights were loaded.", float64(c.deviceFailures()))
	p.One("repairs_total", exposition.Counter, "Times that the devices were opened anew and the model was loaded again, since none answered any more.", float64(c.repairs.Load()))
	writeDevices(p, devices, st.Groups)
	if len(parts) == 0 {
		parts = []berth.ServicePart{{}}
	}
	writeParts(p, "weight_bytes", "Bytes of the weights in use that the devices have by the plan; {adapter=\"\"} is the base, once for all adapters.", parts, func(x berth.ServicePart) float64 { return float64(x.Bytes) })
	writeParts(p, "checkpoint", "ID of the checkpoint in use; 0: the weights are of a file, or none are loaded.", parts, func(x berth.ServicePart) float64 { return float64(x.Used.ID) })
	writeParts(p, "checkpoint_step", "Training step of the checkpoint in use.", parts, func(x berth.ServicePart) float64 { return float64(x.Used.Step) })
}

// writeDevices writes the metrics of the devices that have a copy of the weights, or would if they had not failed. all is what
// devices have done since the server began.
func writeDevices(p exposition.Page, now, all []berth.ServiceGroupStats) {
	var list []berth.ServiceGroupStats
	for _, g := range now {
		x := berth.ServiceGroupStats{Devices: g.Devices}
		if i := slices.IndexFunc(all, func(of berth.ServiceGroupStats) bool { return slices.Equal(of.Devices, g.Devices) }); i >= 0 {
			x = all[i]
		}
		x.Lost = g.Lost
		list = append(list, x)
	}
	for _, m := range []struct {
		name, help, kind string

		of func(*berth.ServiceGroupStats) int64
	}{
		{"device_up", "1 while the device answers, 0 once it has failed or is lost.", exposition.Gauge, func(g *berth.ServiceGroupStats) int64 {
			if g.Lost != nil {
				return 0
			}
			return 1
		}},
		{"device_batches_total", "Batches that the device has computed.", exposition.Counter, func(g *berth.ServiceGroupStats) int64 { return g.Batches }},
		{"device_samples_total", "Samples that the device has computed.", exposition.Counter, func(g *berth.ServiceGroupStats) int64 { return g.Samples }},
		{"device_texts_under_way", "Texts that the device generates.", exposition.Gauge, func(g *berth.ServiceGroupStats) int64 { return int64(g.Texts) }},
		{"device_tokens_total", "Tokens that the device has generated.", exposition.Counter, func(g *berth.ServiceGroupStats) int64 { return g.Tokens }},
		{"device_weight_bytes_total", "Bytes of weights that were copied to the device.", exposition.Counter, func(g *berth.ServiceGroupStats) int64 { return g.WeightBytes }},
	} {
		p.Begin(m.name, m.kind, m.help)
		for i := range list {
			p.Value(m.name, float64(m.of(&list[i])), "device", devicesText(&list[i]))
		}
	}
}

// devicesText lists the devices that have a copy of the weights together.
func devicesText(g *berth.ServiceGroupStats) string {
	return strings.ReplaceAll(idsText(g.Devices), " ", "")
}

// idsText lists devices.
func idsText(list []device.ID) string {
	var ids []string
	for _, id := range list {
		ids = append(ids, string(id))
	}
	return strings.Join(ids, ", ")
}

// compare orders by path, then by status.
func (a answered) compare(b answered) int {
	if a.path != b.path {
		return map[bool]int{true: -1, false: 1}[a.path < b.path]
	}
	return a.status - b.status
}

// writeParts writes a metric of a number for the weights in use, and where there are adapters, for those of each.
func writeParts(p exposition.Page, name, help string, parts []berth.ServicePart, v func(berth.ServicePart) float64) {
	p.Begin(name, exposition.Gauge, help)
	for _, x := range parts {
		var labels []string
		if len(parts) > 1 {
			labels = []string{"adapter", x.Adapter}
		}
		p.Value(name, v(x), labels...)
	}
}
