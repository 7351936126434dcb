package bench

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/berth-ml/berth"
	"github.com/berth-ml/berth/cmd/trainer/serve"
	"github.com/berth-ml/berth/configs"
	"github.com/berth-ml/berth/engine/device"
	"github.com/berth-ml/berth/engine/shape"
	"github.com/berth-ml/berth/internal/units"
)

// Serving is the measurement of a server of a workload: clients ask over HTTP, each for
// one sample, and ask again once they have the answer. Clients, server and model share
// the machine.
type Serving struct {
	Name       string `json:"name"`
	About      string `json:"about"`
	Parameters int64  `json:"parameters"`
	Precision  string `json:"precision"` // float32 or bf16
	Clients    int    `json:"clients"`

	Requests        int           `json:"requests"` // that were answered
	RequestsPerS    float64       `json:"requests_per_s"`
	LatencyMS       LatencyMS     `json:"latency_ms"` // from a request to its answer
	SamplesPerBatch float64       `json:"samples_per_batch"`
	Batches         map[int]int64 `json:"batches"` // by size: the number of samples, rounded up

	PeakResidentBytes int64    `json:"peak_resident_bytes"` // of the process; 0 if unknown
	Devices           []string `json:"devices"`
	Threads           int      `json:"threads"`
	Numerics          string   `json:"numerics,omitempty"`
	Machine           Machine  `json:"machine"`
}

// LatencyMS are times of requests, in milliseconds.
type LatencyMS struct {
	Median float64 `json:"median"`
	P99    float64 `json:"p99"`
	Max    float64 `json:"max"`
}

// servable are the configs of the workloads that a server can be measured with, on data
// that comes with Berth.
var servable = map[string]string{
	"mlp":         "data: {source: mnist, path: 'builtin:mnist'}\nmodel: {preset: mlp, hidden: [512, 256]}\ntrain: {batch: 128}\n",
	"cnn":         "data: {source: mnist, path: 'builtin:mnist'}\nmodel: {preset: cnn, channels: [32, 64], kernel: 3, hidden: [128]}\ntrain: {batch: 64}\n",
	"gpt-nano":    "data: {source: text, path: 'builtin:shakespeare', context: 64}\nmodel: {preset: gpt, layers: 4, heads: 4, width: 128, context: 64}\ntrain: {batch: 12}\n",
	"gpt-small":   "data: {source: text, path: 'builtin:shakespeare', context: 256}\nmodel: {preset: gpt, layers: 6, heads: 6, width: 384, context: 256}\ntrain: {batch: 8}\n",
	"llama-small": "data: {source: text, path: 'builtin:shakespeare', context: 256}\nmodel: {preset: llama, num_hidden_layers: 6, num_attention_heads: 6, num_key_value_heads: 2, hidden_size: 384, intermediate_size: 1024, tie_word_embeddings: true}\ntrain: {batch: 8}\n",
}

// Serve measures a server of a workload's model, asked by so many clients at once, for
// at least o.Seconds. Of the options it takes Seconds, Threads, Devices, ShareDevice,
// Precision and Timeout.
func Serve(ctx context.Context, w Workload, clients int, o RunOptions) (res Serving, err error) {
	if o, err = o.checked(); err != nil {
		return res, err
	}
	if clients < 1 || clients > 4096 {
		return res, fmt.Errorf("%w: --clients %d: give a number from 1 to 4096", ErrOptions, clients)
	}
	if servable[w.Name] == "" {
		return res, fmt.Errorf("%w: --serve: Berth ships no data like that of %s; name mlp, cnn, gpt-nano, gpt-small or llama-small", ErrOptions, w.Name)
	}
	s := &serving{w: w, opt: o, clients: clients}
	defer func() { err = errors.Join(err, s.close()) }()
	if err = s.look(); err == nil {
		err = s.open(ctx)
	}
	if err == nil {
		err = s.ask(ctx)
	}
	if err != nil {
		return res, fmt.Errorf("workload %s: %w", w.Name, err)
	}
	return s.result(), nil
}

// serving is a server that is measured.
type serving struct {
	w       Workload
	opt     RunOptions
	clients int
	dir     string // of the run
	specs   []device.Spec
	server  *serve.Server
	http    *http.Server
	url     string
	bodies  [][]byte        // of the clients' requests
	took    []time.Duration // of requests, once ask has returned
	seconds float64
	before  berth.ServiceStats // when measuring began
	after   berth.ServiceStats // when it ended
}

// look notes which devices there are.
func (s *serving) look() (err error) {
	s.specs, err = s.opt.look()
	return err
}

// open trains one step, and serves the result.
func (s *serving) open(ctx context.Context) (err error) {
	if s.dir, err = os.MkdirTemp("", "berth-bench"); err != nil {
		return err
	}
	set := []string{"devices.use=" + s.opt.Devices, fmt.Sprintf("devices.threads=%d", s.opt.Threads), fmt.Sprintf("devices.share_device=%t", s.opt.ShareDevice),
		fmt.Sprintf("devices.timeout=%v", s.opt.Timeout), "precision=" + s.opt.Precision}
	cfg, err := configs.Parse("the workload "+s.w.Name, []byte(servable[s.w.Name]), configs.Overlay{Set: set})
	if err != nil {
		return fmt.Errorf("%w: %w", ErrOptions, err)
	}
	run, err := berth.Open(ctx, cfg, berth.OpenOptions{})
	if err != nil {
		return err
	}
	w := berth.Weights{Dir: filepath.Join(s.dir, "run")}
	_, err = run.Train(ctx, berth.TrainOptions{Dir: w.Dir, MaxSteps: 1})
	if err := errors.Join(err, run.Close()); err != nil {
		return err
	}
	resetPeakResident()
	o := serve.OpenOptions{Config: cfg, Weights: w, Follow: -1}
	o.Limits, o.Service.Queue = serve.Limits{Requests: s.clients, Share: 100, Time: longest}, s.clients // none is refused
	if s.server, err = serve.Open(ctx, o); err != nil {
		return err
	}
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	s.http, s.url = s.server.HTTP(""), "http://"+l.Addr().String()+"/predict"
	go func() { _ = s.http.Serve(l) }() // until close
	return nil
}

// longest is the time that a request may take, so that a slow machine is measured, too.
const longest = time.Hour

// warmTime is the part of the time that clients ask before it is measured.
const warmTime = 0.2

// ask has the clients ask until they are warm, and then for the time that is measured.
func (s *serving) ask(ctx context.Context) error {
	for k := range s.clients {
		s.bodies = append(s.bodies, s.body(k))
	}
	c := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: s.clients}, Timeout: longest}
	defer c.CloseIdleConnections()
	if _, err := s.round(ctx, c, warmTime*s.opt.Seconds); err != nil {
		return err
	}
	s.before = s.server.Stats()
	from := time.Now()
	took, err := s.round(ctx, c, s.opt.Seconds)
	s.after, s.seconds, s.took = s.server.Stats(), time.Since(from).Seconds(), took
	return err
}

// round has each client ask, at least once, for some seconds. It returns the times of
// all requests. The first failure ends it.
func (s *serving) round(ctx context.Context, c *http.Client, seconds float64) ([]time.Duration, error) {
	ctx, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	to := time.Now().Add(time.Duration(seconds * float64(time.Second)))
	var clients sync.WaitGroup
	took := make([][]time.Duration, s.clients)
	for k := range s.clients {
		clients.Go(func() {
			for len(took[k]) == 0 || time.Now().Before(to) {
				began := time.Now()
				if err := post(ctx, c, s.url, s.bodies[k]); err != nil {
					fail(err)
					return
				}
				took[k] = append(took[k], time.Since(began))
			}
		})
	}
	clients.Wait()
	return slices.Concat(took...), context.Cause(ctx)
}

// body is the request of a client: a sample of random numbers or tokens.
func (s *serving) body(client int) []byte {
	rnd := rand.New(rand.NewPCG(seed, uint64(client)))
	var list []string
	for range s.w.Input.Elems() {
		if s.w.Input.DType == shape.Int32 {
			list = append(list, fmt.Sprint(rnd.IntN(s.w.Classes)))
		} else {
			list = append(list, fmt.Sprintf("%.3f", rnd.Float32()))
		}
	}
	return []byte(`{"inputs": [[` + strings.Join(list, ",") + `]]}`)
}

// post asks, and reads the answer.
func post(ctx context.Context, c *http.Client, url string, body []byte) error {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(body))
	if err != nil {
		return err
	}
	a, err := c.Do(r)
	if err != nil {
		return err
	}
	defer a.Body.Close()
	if a.StatusCode == http.StatusOK {
		_, err = io.Copy(io.Discard, a.Body)
		return err
	}
	text, err := io.ReadAll(io.LimitReader(a.Body, 1<<10))
	return errors.Join(err, fmt.Errorf("the server answered %d: %s", a.StatusCode, text))
}

// close ends the server, and removes the run.
func (s *serving) close() (err error) {
	if s.http != nil {
		err = s.http.Close()
	}
	if s.server != nil {
		err = errors.Join(err, s.server.Close())
	}
	if s.dir != "" {
		err = errors.Join(err, os.RemoveAll(s.dir))
	}
	return err
}

// result sums up.
func (s *serving) result() Serving {
	slices.Sort(s.took)
	r := Serving{
		Name: s.w.Name, About: s.w.About, Parameters: s.w.Parameters, Precision: s.opt.Precision, Clients: s.clients,
		Requests: len(s.took), RequestsPerS: float64(len(s.took)) / s.seconds, LatencyMS: LatencyMS{percentileMS(s.took, 50), percentileMS(s.took, 99), percentileMS(s.took, 100)},
		Batches: map[int]int64{}, PeakResidentBytes: readResident().peak, Machine: ThisMachine(),
	}
	batches := int64(0)
	for n, count := range s.after.Batches {
		r.Batches[n] = count - s.before.Batches[n]
		batches += r.Batches[n]
	}
	r.SamplesPerBatch = float64(s.after.Samples-s.before.Samples) / float64(max(1, batches))
	for _, spec := range s.specs {
		r.Devices, r.Threads, r.Numerics = append(r.Devices, string(spec.ID)), r.Threads+spec.Threads, spec.Numerics
	}
	return r
}

// WriteServings prints measurements as a table, a line each, under a line that names the
// machine and the devices. The table has lines of width characters.
func WriteServings(w io.Writer, rs []Serving, width int) error {
	if len(rs) == 0 {
		return nil
	}
	first := rs[0]
	writeMachine(w, first.Machine, first.Devices, arithmetic(first.Numerics, first.Precision), first.Threads)
	fmt.Fprintf(w, "Clients ask over HTTP for one sample each, on the same machine, and ask again once they have the answer.\n\n")
	rows := [][]string{{"WORKLOAD", "CLIENTS", "REQUESTS/s", "MEDIAN", "P99", "MAX", "SAMPLES/BATCH"}}
	for _, r := range rs {
		row := append([]string{r.Name, units.Thousands(r.Clients), units.Rate(r.RequestsPerS)}, times(r.LatencyMS.Median, r.LatencyMS.P99, r.LatencyMS.Max)...)
		rows = append(rows, append(row, units.Number(r.SamplesPerBatch)))
	}
	_, err := io.WriteString(w, numbers(rows, width, 5))
	return err
}
