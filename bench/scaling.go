package bench

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"time"

	"github.com/berth-ml/berth/engine/device"
	"github.com/berth-ml/berth/internal/units"
	"github.com/berth-ml/berth/partition"
)

// Scaling is a workload on one device, and on several of the same kind in each way to
// use them.
type Scaling struct {
	Workload     string  `json:"workload"`
	About        string  `json:"about"`
	Batch        int     `json:"batch"`
	Microbatches int     `json:"microbatches"` // of a step
	Precision    string  `json:"precision"`
	Numerics     string  `json:"numerics,omitempty"` // as in device.Spec
	Machine      Machine `json:"machine"`
	Ways         []Way   `json:"ways"` // the first one is one device
}

// Way is a way to use devices, and its measurement. Bytes and times are of a step.
type Way struct {
	Devices          int                 `json:"devices"`
	Threads          int                 `json:"threads"` // of each device
	Schedule         string              `json:"schedule"`
	Stages           int                 `json:"stages"`
	Replicas         int                 `json:"replicas"`
	Reduction        partition.Reduction `json:"reduction"`
	Shard            partition.Shard     `json:"shard"`
	Steps            int                 `json:"steps"`        // that were measured
	StepMS           float64             `json:"step_ms"`      // the median
	SpeedUp          float64             `json:"speed_up"`     // over one device
	PredictedMS      float64             `json:"predicted_ms"` // as simulated with measured times of segments and copies
	PredictedSpeedUp float64             `json:"predicted_speed_up"`
	BubbleMeasured   float64             `json:"bubble_measured"` // the share of the time in which devices wait, from 0 to 1
	BubbleSimulated  float64             `json:"bubble_simulated"`
	BatchBytes       int64               `json:"batch_bytes"`       // copied in
	PeerBytes        int64               `json:"peer_bytes"`        // copied between devices
	KernelMS         float64             `json:"kernel_ms"`         // of the launches on the device that has most, a mean
	BesideMS         float64             `json:"beside_kernels_ms"` // the mean step without them
	// WeightsSHA256 is the hash of all weights after the last step. Ways of one
	// reduction have the same after equally many steps.
	WeightsSHA256 string `json:"weights_sha256"`
}

// label names a way for people: "2 devices, zb-h1".
func (w *Way) label() string {
	switch {
	case w.Devices == 1:
		return "1 device"
	case w.Replicas == 1:
		return fmt.Sprintf("%d devices, %s", w.Devices, w.Schedule)
	}
	text := fmt.Sprintf("%d devices, %d replicas", w.Devices, w.Replicas)
	if w.Stages > 1 {
		text += fmt.Sprintf(" of %d stages", w.Stages)
	}
	if w.Shard == partition.ShardOptimizer {
		text += ", optimizer sharded"
	}
	return text
}

// options are those of the way's measurement. All devices have equal threads.
func (w *Way) options(o RunOptions) RunOptions {
	o.Devices = fmt.Sprintf("%s:%d", o.Devices, w.Devices)
	o.Threads, o.Stages = w.Threads*w.Devices, 0
	o.Schedule, o.Replicas, o.Reduction, o.Shard = w.Schedule, w.Replicas, w.Reduction, w.Shard
	return o
}

// ways lists the ways to use 1, 2, 4, … devices, and most of them: pipelines of each
// schedule, and replicas.
func ways(most int) []Way {
	list := []Way{{Devices: 1, Schedule: "1f1b", Replicas: 1, Reduction: partition.ReduceOrder, Shard: partition.ShardNone}}
	for n := 2; n <= most; n++ {
		if n&(n-1) != 0 && n != most {
			continue
		}
		for _, name := range []string{"gpipe", "1f1b", "interleaved", "zb-h1"} {
			list = append(list, Way{Devices: n, Schedule: name, Replicas: 1, Reduction: partition.ReduceOrder, Shard: partition.ShardNone})
		}
		for _, shard := range []partition.Shard{partition.ShardNone, partition.ShardOptimizer} {
			list = append(list, Way{Devices: n, Schedule: "1f1b", Replicas: n, Reduction: partition.ReduceTree, Shard: shard})
		}
		if n > 2 && n%2 == 0 {
			list = append(list, Way{Devices: n, Schedule: "1f1b", Replicas: n / 2, Reduction: partition.ReduceTree, Shard: partition.ShardOptimizer})
		}
	}
	return list
}

// MeasureScaling measures a workload on one device of o.Devices, and on several up to
// all of them. The threads are divided over the most devices: one device has as many as
// each of several. o.Seconds or o.Steps is for each way. It passes over schedule, stages,
// replicas, reduction and shard of the options, and over ways that the model is too small
// for. tell hears of each way as it begins, and of its result or why it was passed over.
func MeasureScaling(ctx context.Context, w Workload, o RunOptions, tell func(text string)) (s Scaling, err error) {
	m, err := newScalingRun(w, o)
	if err != nil {
		return s, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(m.dir)) }()
	s = Scaling{Workload: w.Name, About: w.About, Batch: w.Batch, Microbatches: m.o.Microbatches, Precision: m.o.Precision, Numerics: m.numerics, Machine: ThisMachine()}
	for _, x := range ways(m.most) {
		if x.Replicas > m.o.Microbatches {
			continue
		}
		x.Threads = m.threads
		tell(x.label() + " … ")
		switch err := m.measure(ctx, &x); {
		case errors.Is(err, errTooSmall):
			tell(err.Error() + "\n")
			continue
		case err != nil:
			tell("\n")
			return s, fmt.Errorf("workload %s, %s: %w", w.Name, x.label(), err)
		}
		s.Ways = append(s.Ways, x)
		last := &s.Ways[len(s.Ways)-1]
		last.SpeedUp, last.PredictedSpeedUp = s.Ways[0].StepMS/x.StepMS, s.Ways[0].PredictedMS/x.PredictedMS
		tell(fmt.Sprintf("%s a step, %s times as fast\n", units.Milliseconds(x.StepMS), speedUp(last.SpeedUp)))
	}
	return s, nil
}

// errTooSmall is the cause for which a way is passed over.
var errTooSmall = errors.New("the model has fewer blocks than the devices need")

// scalingDevices is the kind of the devices, and the most of them.
func (o RunOptions) scalingDevices() (kind string, most int, err error) {
	list, err := device.ParseList(o.Devices)
	if err != nil || len(list) != 1 || list[0].Count < 2 {
		return "", 0, fmt.Errorf("%w: devices %q: --scaling compares numbers of devices of one kind, so it needs at least 2: write --devices cpu:2", ErrOptions, o.Devices)
	}
	return list[0].Kind, list[0].Count, nil
}

// scalingRun is one call of MeasureScaling.
type scalingRun struct {
	w        Workload
	o        RunOptions // with the kind of the devices alone
	most     int        // devices
	threads  int        // of each device
	numerics string
	dir      string // of the file of times, to be removed
}

// newScalingRun checks the options, and makes the file of times.
func newScalingRun(w Workload, o RunOptions) (m *scalingRun, err error) {
	m = &scalingRun{w: w}
	if m.o, err = o.checked(); err != nil {
		return nil, err
	}
	if m.o.Devices, m.most, err = o.scalingDevices(); err != nil {
		return nil, err
	}
	if err := cmp.Or(w.checkMicrobatches(m.o.Microbatches), m.describe(o)); err != nil {
		return nil, err
	}
	if m.dir, err = os.MkdirTemp("", "berth-scaling"); err != nil {
		return nil, err
	}
	m.o.costs = filepath.Join(m.dir, "times.json")
	return m, nil
}

// describe finds the threads of each device, and the instructions that they compute with.
func (m *scalingRun) describe(o RunOptions) error {
	specs, err := o.look()
	for _, d := range specs {
		m.threads, m.numerics = max(m.threads, d.Threads), d.Numerics
	}
	return err
}

// measure measures one way.
func (m *scalingRun) measure(ctx context.Context, x *Way) (err error) {
	debug.FreeOSMemory() // of the way before
	s, err := open(ctx, m.w, x.options(m.o))
	if errors.Is(err, partition.ErrStages) {
		return errTooSmall
	}
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.close()) }()
	if len(s.on.Plan.Devices()) < x.Devices {
		return errTooSmall
	}
	p, err := s.timed(ctx, x.options(m.o))
	if err != nil {
		return err
	}
	x.PredictedMS, x.BubbleSimulated, x.Stages = 1e3*p.Seconds, p.Bubble, len(s.on.Plan.Stages)
	return m.steps(ctx, s, x)
}

// leastSteps is the fewest steps that are measured.
const leastSteps = 3

// steps takes the way's steps.
func (m *scalingRun) steps(ctx context.Context, s *training, x *Way) error {
	for range 2 {
		if err := s.step(ctx); err != nil {
			return err
		}
	}
	if err := s.finish(); err != nil {
		return err
	}
	s.ends.restart(1 << 10)
	start, before := time.Now(), s.rt.Busy()
	for n := 0; n < leastSteps || n < m.o.Steps || m.o.Steps == 0 && time.Since(start).Seconds() < m.o.Seconds; n++ {
		if err := s.step(ctx); err != nil {
			return err
		}
	}
	if err := s.finish(); err != nil {
		return err
	}
	took, busy := time.Since(start), s.rt.Busy()
	var sum time.Duration
	for i := range busy {
		busy[i] -= before[i]
		sum += busy[i]
	}
	ms := newStepMS(s.ends.times())
	x.Steps, x.StepMS = len(s.ends.times()), ms.Median
	x.BubbleMeasured = max(0, 1-float64(sum)/float64(took)/float64(len(busy)))
	x.KernelMS = 1e3 * slices.Max(busy).Seconds() / float64(x.Steps)
	x.BesideMS = max(0, 1e3*took.Seconds()/float64(x.Steps)-x.KernelMS)
	l := s.rt.Residency.Ledger().SteadyState()
	x.BatchBytes, x.PeerBytes = l.CopyIn.Median, l.Peer.Median
	hash, err := s.prog.WeightsHash(ctx)
	x.WeightsSHA256 = hash
	return err
}
