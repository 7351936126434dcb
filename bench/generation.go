package bench

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"
	"runtime/debug"
	"slices"
	"sync"
	"time"

	"github.com/berth-ml/berth/configs"
	"github.com/berth-ml/berth/configs/specs"
	"github.com/berth-ml/berth/engine/device"
	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/engine/models"
	"github.com/berth-ml/berth/engine/ops"
	"github.com/berth-ml/berth/executor"
	"github.com/berth-ml/berth/executor/infer"
	"github.com/berth-ml/berth/executor/session"
	"github.com/berth-ml/berth/internal/stop"
	"github.com/berth-ml/berth/internal/units"
	"github.com/berth-ml/berth/partition"
)

// Generation is the measurement of generating text with a workload of tokens, in turns: a
// prompt of half the model's context is read (prefill), and tokens follow one after the
// other (decoding).
type Generation struct {
	Name       string `json:"name"`
	About      string `json:"about"`
	Parameters int64  `json:"parameters"`
	Precision  string `json:"precision"` // float32 or bf16
	Weights    string `json:"weights"`   // as they lie in memory: float32, bf16 or int8
	Context    int    `json:"context"`   // tokens that the model sees at once
	Prompt     int    `json:"prompt_tokens"`
	Tokens     int    `json:"tokens"` // that were decoded, in all turns

	PrefillMS         float64 `json:"prefill_ms"` // of a prompt, the median
	PrefillTokensPerS float64 `json:"prefill_tokens_per_s"`
	PrefillGflops     float64 `json:"prefill_gflops"`

	DecodeMS         StepMS  `json:"decode_ms"` // of a token
	DecodeTokensPerS float64 `json:"decode_tokens_per_s"`
	DecodeAllocs     float64 `json:"decode_allocs_per_token"` // of Go memory
	// DecodeBytes are read for a token: the weights once, and the cached keys and values
	// of the tokens before it, in the middle of those that were decoded.
	DecodeBytes      int64   `json:"decode_bytes_per_token"`
	DecodeGBytesPerS float64 `json:"decode_gbytes_per_s"`
	MemoryGBytesPerS float64 `json:"memory_gbytes_per_s"` // that as many threads read from memory
	MemoryFraction   float64 `json:"memory_fraction"`     // DecodeGBytesPerS / MemoryGBytesPerS; above 1, the model lies in the cores' caches

	CacheBytes        int64    `json:"cache_bytes"`
	PeakResidentBytes int64    `json:"peak_resident_bytes"` // of the process; 0 if unknown
	Devices           []string `json:"devices"`
	Stages            int      `json:"stages"`
	Threads           int      `json:"threads"`
	Numerics          string   `json:"numerics,omitempty"`
	Machine           Machine  `json:"machine"`
}

// decoded is the most tokens that are decoded in a turn.
const decoded = 64

// Generate measures how fast a workload generates text, for at least o.Seconds. Of the
// options it takes Seconds, Threads, Devices, Stages, Precision, Weights and Timeout.
func Generate(ctx context.Context, w Workload, o RunOptions) (res Generation, err error) {
	if o, err = o.checked(); err != nil {
		return res, err
	}
	if err := w.oneShape("generate"); err != nil {
		return res, err
	}
	if w.Tokens == 0 {
		return res, fmt.Errorf("%w: --generate: %s is not a model of text; name gpt-nano, gpt-small, llama-small or gpt2", ErrOptions, w.Name)
	}
	if _, err := o.look(); err != nil {
		return res, fmt.Errorf("workload %s: %w", w.Name, err)
	}
	debug.FreeOSMemory() // of an earlier workload
	resetPeakResident()
	s := &generating{w: w, spec: w.spec(o.Precision == bf16Name)}
	if err := specs.Stored(&s.spec, &configs.Config{}, o.Weights); err != nil {
		return res, fmt.Errorf("%w: --weights %s: give float32, bf16 or int8", ErrOptions, o.Weights)
	}
	defer func() { err = errors.Join(err, s.close()) }()
	if err := s.open(ctx, o); err != nil {
		return res, fmt.Errorf("workload %s: %w", w.Name, err)
	}
	if err := s.turns(ctx, o.Seconds); err != nil {
		return res, fmt.Errorf("workload %s: %w", w.Name, err)
	}
	return s.result(o)
}

// generating is a workload that generates. One goroutine uses it.
type generating struct {
	w       Workload
	spec    models.Spec
	size    infer.GeneratorOptions
	on      *session.Session // with the plan of a chunk
	rt      *executor.Runtime
	gen     *infer.Generator
	prompt  []int32
	prefill []time.Duration
	decode  []time.Duration
	allocs  uint64
}

// open loads the model and its weights.
func (s *generating) open(ctx context.Context, o RunOptions) (err error) {
	s.size.Context = s.spec.Positions()
	g, err := infer.GeneratorGraph(s.spec, s.size, stop.Of(ctx))
	if err != nil {
		return err
	}
	s.on, err = session.Open(o.session(1, 1), func(on *session.Session) error {
		po, err := on.Planner.Options(ctx)
		if err == nil {
			on.Plan, err = partition.New(g, po)
		}
		return err
	})
	if err != nil {
		return err
	}
	if s.rt, err = o.runtime(ctx, s.on, s.on.Devices); err != nil {
		return err
	}
	if s.gen, err = infer.NewGenerator(ctx, s.rt, infer.Model{Spec: s.spec, Plan: s.on.Plan, Microbatch: 1}, s.size); err != nil {
		return err
	}
	for i := range max(1, s.size.Context/2) {
		s.prompt = append(s.prompt, int32(i*31%s.w.Classes))
	}
	return s.gen.InitFrom(ctx, executor.Contents{Write: func(v *graph.Value, dst []byte) error {
		models.Fill(v, seed, dst)
		return nil
	}})
}

// turns measures turns after one to warm up.
func (s *generating) turns(ctx context.Context, seconds float64) error {
	if err := s.turn(ctx); err != nil {
		return err
	}
	s.prefill, s.decode, s.allocs = nil, make([]time.Duration, 0, 1<<16), 0
	for began := time.Now(); len(s.prefill) == 0 || time.Since(began).Seconds() < seconds; {
		if err := s.turn(ctx); err != nil {
			return err
		}
	}
	return nil
}

// turn reads the prompt and decodes.
func (s *generating) turn(ctx context.Context) error {
	s.gen.Forget(0)
	began := time.Now()
	token, err := s.gen.Append(ctx, 0, s.prompt, len(s.prompt))
	if err != nil {
		return err
	}
	s.prefill = append(s.prefill, time.Since(began))
	next := []int32{token}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for i := range s.perTurn() {
		began := time.Now()
		if next[0], err = s.gen.Append(ctx, 0, next, len(s.prompt)+1+i); err != nil {
			return err
		}
		s.decode = append(s.decode, time.Since(began))
	}
	runtime.ReadMemStats(&after)
	s.allocs += after.Mallocs - before.Mallocs
	return nil
}

// perTurn is the number of tokens that are decoded in a turn.
func (s *generating) perTurn() int { return min(decoded, s.size.Context-len(s.prompt)) }

// close frees the model, and closes the devices.
func (s *generating) close() (err error) {
	if s.gen != nil {
		err = s.gen.Close()
	}
	if s.rt != nil {
		err = errors.Join(err, s.rt.Close())
	}
	if s.on != nil {
		err = errors.Join(err, s.on.Close())
	}
	return err
}

// result sums up.
func (s *generating) result(o RunOptions) (Generation, error) {
	one, err := models.Generate(s.spec, models.GenerateSize{Rows: 1, Context: s.size.Context})
	if err != nil {
		return Generation{}, err
	}
	slices.Sort(s.prefill)
	slices.Sort(s.decode)
	r := Generation{
		Name: s.w.Name, About: s.w.About, Parameters: s.w.Parameters, Precision: o.Precision, Weights: cmp.Or(o.Weights, float32Name),
		Context: s.size.Context, Prompt: len(s.prompt), Tokens: len(s.decode), Stages: len(s.on.Plan.Stages),
		PrefillMS: newStepMS(s.prefill).Median, DecodeMS: newStepMS(s.decode),
		DecodeAllocs: float64(s.allocs) / float64(len(s.decode)), DecodeBytes: bytesRead(one, len(s.prompt)+s.perTurn()/2),
		PeakResidentBytes: readResident().peak, Machine: ThisMachine(),
	}
	for _, d := range s.on.Devices {
		spec := d.Spec()
		r.Devices, r.Threads, r.Numerics = append(r.Devices, string(spec.ID)), r.Threads+spec.Threads, spec.Numerics
		r.CacheBytes += d.Stats().LiveBy[device.Cache]
	}
	r.PrefillTokensPerS = 1e3 * float64(r.Prompt) / r.PrefillMS
	r.PrefillGflops = float64(s.prefillFlops()) / r.PrefillMS / 1e6
	r.DecodeTokensPerS = 1e3 / r.DecodeMS.Median
	r.DecodeGBytesPerS = float64(r.DecodeBytes) / r.DecodeMS.Median / 1e6
	r.MemoryGBytesPerS = memorySpeed(r.Threads)
	r.MemoryFraction = r.DecodeGBytesPerS / r.MemoryGBytesPerS
	return r, nil
}

// ofMemory is the share of memory's speed at which tokens are decoded. A model that is read faster than memory gives lies in
// the caches of the cores.
func (r *Generation) ofMemory() string {
	if r.MemoryFraction > 1 {
		return "in cache"
	}
	return percent(r.MemoryFraction)
}

// bytesRead are read by a step of one token at a position. A device of this kind keeps
// what is between ops in its caches.
func bytesRead(g *graph.Graph, position int) (sum int64) {
	for _, n := range g.Nodes {
		if _, ok := n.Op.(ops.CachedAttention); ok {
			sum += 2 * int64(position) * int64(n.Out[0].Meta.Shape.Dim(-1)) * 4
			continue
		}
		for _, v := range n.In {
			if v.Kind == graph.Variable && v.Role == graph.Parameter {
				sum += min(v.Meta.Bytes(), n.Cost().Bytes) // a gather reads one row
			}
		}
	}
	return sum
}

// prefillFlops are those of the products of reading the prompt.
func (s *generating) prefillFlops() int64 {
	n := int64(len(s.prompt))
	rows := int64(s.on.Plan.Graph.Find(models.InputName).Meta.Elems())
	sum := Flops(s.on.Plan.Graph) * ((n + rows - 1) / rows)
	for _, x := range s.on.Plan.Graph.Nodes {
		if _, ok := x.Op.(ops.CachedAttention); ok {
			sum += 4 * int64(x.Out[0].Meta.Shape.Dim(-1)) * n * (n + 1) / 2
		}
	}
	return sum
}

// memorySpeed is the best of a few readings, in GB/s, of so many threads that each read
// memory of their own, which no cache holds.
func memorySpeed(threads int) (best float64) {
	const size, rounds = 64 << 20, 4
	all := make([][]byte, threads)
	for i := range all {
		all[i] = bytes.Repeat([]byte{1}, size)
	}
	for range rounds {
		var wg sync.WaitGroup
		began := time.Now()
		for _, b := range all {
			wg.Go(func() { bytes.IndexByte(b, 0) })
		}
		wg.Wait()
		best = max(best, float64(threads*size)/time.Since(began).Seconds()/1e9)
	}
	return best
}

// WriteGenerations prints measurements as a table, a line each, under a line that names
// the machine and the devices. The table has lines of width characters.
func WriteGenerations(w io.Writer, rs []Generation, width int) error {
	if len(rs) == 0 {
		return nil
	}
	first := rs[0]
	writeMachine(w, first.Machine, first.Devices, arithmetic(first.Numerics, first.Precision), first.Threads)
	fmt.Fprintf(w, "A prompt of half the context is read (prefill), and tokens follow one by one (decoding). Memory is read at %s GB/s.\n\n", units.Number(first.MemoryGBytesPerS))
	rows := [][]string{{"WORKLOAD", "PROMPT", "PREFILL", "TOKENS/s", "GFLOP/s", "DECODE", "TOKENS/s", "GB/s", "OF MEMORY", "ALLOCS"}}
	for _, r := range rs {
		rows = append(rows, []string{
			r.Name, units.Thousands(r.Prompt), units.Milliseconds(r.PrefillMS), units.Rate(r.PrefillTokensPerS), units.Number(r.PrefillGflops),
			units.Milliseconds(r.DecodeMS.Median), units.Rate(r.DecodeTokensPerS), units.Number(r.DecodeGBytesPerS), r.ofMemory(),
			units.Number(r.DecodeAllocs),
		})
	}
	_, err := io.WriteString(w, numbers(rows, width, 9, 4, 7))
	return err
}
