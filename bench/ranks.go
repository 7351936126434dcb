package bench

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/berth-ml/berth/engine/device"
	"github.com/berth-ml/berth/executor/ranks/crew"
	"github.com/berth-ml/berth/internal/stop"
	"github.com/berth-ml/berth/partition"
)

// Ranked is a measurement of several processes that train together.
type Ranked struct {
	Library  string `json:"library"` // of MPI, and its version
	Machines int    `json:"machines"`
	// LatencyUS and BytesPerS are the link between the first and the last rank, as measured: see [partition.Link].
	LatencyUS float64 `json:"latency_us"`
	BytesPerS float64 `json:"bytes_per_s"`
	// PredictedMS is a step as simulated with that link, and with the times of its segments that all ranks have measured
	// at once. PredictedOfMeasured is its share of Result.StepMS.Median.
	PredictedMS         float64 `json:"predicted_ms"`
	PredictedOfMeasured float64 `json:"predicted_of_measured"`
	Each                []Rank  `json:"each"`

	predicted *partition.Prediction // on rank 0
}

// Rank is what a rank does in a step, on average, and what was predicted of it.
type Rank struct {
	Rank               int      `json:"rank"`
	Machine            string   `json:"machine"`
	WorksMS            float64  `json:"works_ms"` // its device that works longest runs launches
	WaitsMS            float64  `json:"waits_ms"` // the rest of the step
	WaitedFor          []Waited `json:"waited_for,omitempty"`
	SentBytes          int64    `json:"sent_bytes"` // to others, signs of life too
	PredictedWorksMS   float64  `json:"predicted_works_ms"`
	PredictedWaitsMS   float64  `json:"predicted_waits_ms"`
	PredictedSentBytes int64    `json:"predicted_sent_bytes"`
}

// Waited is how long a rank waited for messages of another one in a step, looked at 50 times a second.
type Waited struct {
	Rank int     `json:"rank"`
	MS   float64 `json:"ms"`
}

// ofRanks is o with the defaults of ranks, or why ranks cannot use it.
func (o RunOptions) ofRanks() (RunOptions, error) {
	if o.Ranks == nil {
		return o, nil
	}
	switch {
	case o.Profile:
		return o, fmt.Errorf("%w: --profile: the kernels of several processes are not summed up: leave it out, or start one process", ErrOptions)
	case o.Watch > 0:
		return o, fmt.Errorf("%w: --watch: looks are measured in one process: leave it out, or start one process", ErrOptions)
	case len(o.Faults) > 0:
		return o, fmt.Errorf("%w: --fault: several processes inject none: leave it out, or start one process", ErrOptions)
	}
	o.Threads = cmp.Or(o.Threads, o.Ranks.Part().Threads)
	if o.Replicas == 0 && o.Reduction == partition.ReduceTree {
		list, err := device.ParseList(cmp.Or(o.Devices, "cpu"))
		if err != nil || len(list) != 1 {
			return o, nil // which opening them refuses
		}
		size, m := o.Ranks.Size(), max(1, o.Microbatches)
		if o.Replicas = size; o.Stages > 1 {
			o.Replicas = min(size, max(1, size*list[0].Count/o.Stages))
		}
		if o.Replicas > m {
			return o, fmt.Errorf("%w: --microbatches %d: %d processes with a replica each share the microbatches of a step: start at most %d, or give --microbatches %d or more", ErrOptions, m, o.Replicas, m, o.Replicas)
		}
	}
	if o.Shard == "" && o.Replicas > 1 {
		o.Shard = partition.ShardOptimizer
	}
	return o, nil
}

// Facts are what the measurements of ranks have in common. Devices, threads and memory are each rank's own.
func (o RunOptions) Facts(ws ...Workload) []crew.Fact {
	var list []crew.Fact
	add := func(name string, value any) {
		list = append(list, crew.Fact{Name: name, Value: fmt.Sprint(value), Remedy: "give it to all ranks alike"})
	}
	add("--seconds", o.Seconds)
	add("--steps", o.Steps)
	add("--microbatches", o.Microbatches)
	add("--stages", o.Stages)
	add("--schedule", o.Schedule)
	add("--reduction", o.Reduction)
	add("--replicas", o.Replicas)
	add("--shard", o.Shard)
	add("--recompute", o.Recompute)
	add("--precision", o.Precision)
	add("--op-by-op", o.OpByOp)
	for i, w := range ws {
		text := fmt.Sprintf("%s, batch %d in %d microbatches, %s, %d parameters", w.Name, w.Batch, w.Microbatches, w.Precision, w.Parameters)
		if w.own != nil {
			text += ", " + w.own.fingerprint
		}
		add(fmt.Sprintf("workload %d", i+1), text)
	}
	return list
}

// together is what a rank does while steps run. A nil together is a process alone.
type together struct {
	crew    *crew.Crew
	pilot   *crew.Pilot
	stepped atomic.Int64 // steps so far
	samples *crew.Samples
	sent    int64 // bytes before the steps that are measured
}

// newTogether is together of ranks; nil: this process is alone.
func newTogether(c *crew.Crew) *together {
	if c == nil {
		return nil
	}
	return &together{crew: c, pilot: c.NewPilot()}
}

// enter has others hear of what this rank does in steps, until leave.
func (t *together) enter(s *training) {
	if t == nil {
		return
	}
	t.crew.SetDoing(func() crew.Doing {
		return s.on.Doing(s.rt, crew.Doing{Step: int(t.stepped.Load()) + 1, What: "it is at its step", Must: true, Moves: uint64(s.rt.Worked())})
	})
}

// quit ends the messages of this rank after a failure, or a panic.
func (t *together) quit(returned bool, err error) {
	switch {
	case t == nil || returned && err == nil:
	case returned:
		t.crew.Quit(err)
	default:
		t.crew.Quit(nil)
	}
}

// leave undoes enter.
func (t *together) leave() {
	if t != nil {
		t.samples.End()
		t.crew.SetDoing(nil)
	}
}

// of are the ranks; nil: this process is alone.
func (t *together) of() *crew.Crew {
	if t == nil {
		return nil
	}
	return t.crew
}

// begin begins to count. All steps before have ended on this rank.
func (t *together) begin() {
	if t != nil {
		t.sent, t.samples = t.crew.Sent(), t.crew.Sample()
	}
}

// errInterrupted is a signal on a rank.
var errInterrupted = errors.New("interrupted")

// agree has all ranks hear of an error of one, or that its ctx has ended, and waits for them.
func (t *together) agree(ctx context.Context, what string, err error) error {
	if t == nil {
		return cmp.Or(err, ctx.Err())
	}
	if ctx.Err() != nil {
		err = errInterrupted
	}
	return t.crew.Agree(ctx, what, err)
}

// interrupted words a verdict of ranks that a signal has ended: there is nothing to go on from.
func interrupted(err error) error {
	if v, ok := errors.AsType[*crew.Verdict](err); ok && v.Kind == crew.Stopped {
		return &crew.Verdict{Rank: v.Rank, Kind: crew.Failed, Text: errInterrupted.Error()}
	}
	return err
}

// run takes steps until there are enough, at least one: all ranks take equally many, as rank 0 decides. Of others, enough is not
// asked.
func (t *together) run(ctx context.Context, enough func(steps int) bool, step func(context.Context) error) (steps int, err error) {
	work := context.WithoutCancel(ctx) // the others wait for the step under way
	for o := (crew.Orders{}); !o.Stop; steps++ {
		o = crew.Orders{Stop: ctx.Err() != nil || t.crew.Rank() == 0 && enough(steps+1)}
		if err := t.pilot.Next(work, o); err != nil {
			return steps, err
		}
		if err := step(work); err != nil {
			return steps, err
		}
		t.stepped.Add(1)
		if o, err = t.pilot.Orders(work); err != nil {
			return steps, err
		}
	}
	return steps, t.pilot.End(work)
}

// rank is what this rank did in so many steps; nil if this process is alone. busy is, of each device, for how long it
// worked, and took how long the steps took.
func (t *together) rank(steps int, busy []time.Duration, took time.Duration) *Ranked {
	if t == nil {
		return nil
	}
	c, each := t.crew, float64(time.Millisecond)*float64(steps)
	r := Rank{Rank: c.Rank(), Machine: c.Members()[c.Rank()].Host, SentBytes: (c.Sent() - t.sent) / int64(steps)}
	r.WorksMS = float64(slices.Max(busy)) / each
	r.WaitsMS = max(0, float64(took)/each-r.WorksMS)
	for rank, d := range t.samples.End() {
		if d > 0 {
			r.WaitedFor = append(r.WaitedFor, Waited{rank, float64(d) / each})
		}
	}
	return &Ranked{Library: c.Carrier(), Machines: c.Machines(), Each: []Rank{r}}
}

// predict predicts a step into r, on rank 0. All ranks call it: they measure the segments and the link.
func (s *training) predict(ctx context.Context, o RunOptions, r *Ranked) (err error) {
	link, err := measureCrewLink(ctx, o.Ranks)
	if err != nil {
		return err
	}
	if err := s.time(ctx, o); err != nil || o.Ranks.Rank() > 0 {
		return interrupted(err)
	}
	p, err := s.on.Plan.Linked(link).Predict(stop.Of(ctx))
	if err != nil {
		return err
	}
	r.LatencyUS, r.BytesPerS = 1e6*link.Latency, link.BytesPerS
	r.PredictedMS = 1e3 * p.Seconds
	r.predicted = p
	return nil
}

// Sizes of the messages by which the link of ranks is measured, in bytes, and how often each is.
const (
	shortMessage = 4
	longMessage  = 4 << 20
	crewRounds   = 5
)

// measureCrewLink measures the link between the first and the last rank, which are the likeliest to be on two machines. The
// others have the zero value.
func measureCrewLink(ctx context.Context, c *crew.Crew) (l partition.Link, err error) {
	if err := c.Agree(ctx, "its link", nil); err != nil { // all have time now
		return l, err
	}
	last := c.Size() - 1
	if c.Rank() != 0 && c.Rank() != last {
		return l, nil
	}
	var seconds [2]float64
	for i, bytes := range []int{shortMessage, longMessage} {
		b := make([]byte, bytes)
		var rounds []float64
		for range crewRounds + 1 {
			ms, err := oneWay(ctx, c.Transport(), last, b)
			if err != nil {
				return l, err
			}
			rounds = append(rounds, ms)
		}
		seconds[i] = medianOfRounds(rounds) / 1e3
	}
	return partition.Link{Latency: seconds[0], BytesPerS: longMessage / max(1e-9, seconds[1]-seconds[0])}, nil
}

// merge gives rank 0 the measurement of all ranks: their devices, memory, bytes and allocations, and the time of a step from the
// first that has a part of the model. Others keep their own.
func (r Result) merge(ctx context.Context, c *crew.Crew, tokens int) (Result, error) {
	if c == nil {
		return r, nil
	}
	mine := []byte("null") // rank 0 has its own
	if c.Rank() > 0 {
		var err error
		if mine, err = json.Marshal(r); err != nil {
			return r, err
		}
	}
	lists, err := c.Gather(ctx, "its measurement", mine)
	if err != nil || c.Rank() > 0 {
		return r, err
	}
	for rank, b := range lists[1:] {
		var x Result
		if err := json.Unmarshal(b, &x); err != nil {
			return r, fmt.Errorf("%s says %q of its measurement: %w", c.Name(rank+1), b, err)
		}
		r.add(&x)
	}
	r.rates(tokens)
	r.Ranks.compare(r.StepMS.Median)
	return r, nil
}

// add adds what another rank has measured.
func (r *Result) add(x *Result) {
	if r.Steps == 0 { // no launch was there
		r.Steps, r.StepMS = x.Steps, x.StepMS
	}
	r.AllocsPerStep += x.AllocsPerStep
	r.Arena.Total += x.Arena.Total
	for usage, n := range x.Arena.ByUsage {
		r.Arena.ByUsage[usage] += n
	}
	r.Memory = append(r.Memory, x.Memory...)
	r.Copies.BatchBytes += x.Copies.BatchBytes
	r.Copies.LoadedBytes += x.Copies.LoadedBytes
	r.Copies.SpilledBytes += x.Copies.SpilledBytes
	r.Copies.PeerBytes += x.Copies.PeerBytes
	r.Copies.HiddenMS += x.Copies.HiddenMS
	r.Copies.ExposedMS += x.Copies.ExposedMS
	r.ResidentBytes += x.ResidentBytes
	r.PeakResidentBytes += x.PeakResidentBytes
	r.PeakGflops += x.PeakGflops
	r.Devices = append(r.Devices, x.Devices...)
	r.Threads += x.Threads
	r.Ranks.Each = append(r.Ranks.Each, x.Ranks.Each...)
}

// compare puts the prediction beside the measured step.
func (r *Ranked) compare(stepMS float64) {
	r.PredictedOfMeasured = r.PredictedMS / stepMS
	for i := range r.Each {
		x, p := &r.Each[i], r.predicted.Ranks[i]
		x.PredictedWorksMS, x.PredictedWaitsMS, x.PredictedSentBytes = 1e3*p.Working, 1e3*p.Waiting, p.Sent
	}
}
