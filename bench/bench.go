package bench

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"runtime/debug"
	"slices"
	"time"

	"github.com/berth-ml/berth/configs"
	"github.com/berth-ml/berth/engine/device"
	"github.com/berth-ml/berth/partition"
)

// ErrOptions is the cause of errors about [RunOptions].
var ErrOptions = errors.New("bench options")

// RunOptions says how to measure.
type RunOptions struct {
	Seconds float64 // measure at least that long; 0 means 3
	Threads int     // worker threads over all devices; 0 means all the machine has
	Devices string  // "cpu" or "cpu:2", one stage each; empty means cpu
	Profile bool    // time every kernel, which slows short ones a little
	// Recompute is what the backward pass computes again to save memory: none,
	// cheap or block; empty means none.
	Recompute partition.Recompute
	Precision string // float32 or bf16, as in a config; empty means float32

	onKernel func(w *device.Work, took time.Duration) // instead of the profile
}

const (
	defaultSeconds = 3
	mostSeconds    = 24 * 3600
	// warmSteps are the least: later ones have nothing to set up any more.
	warmSteps = 3
	// warmShare is how much of the measured time is spent to warm up, so that
	// clocks and caches are as they stay.
	warmShare = 0.2
)

// The precisions.
const (
	float32Name = "float32"
	bf16Name    = "bf16"
)

func (o RunOptions) checked() (RunOptions, error) {
	if !(o.Seconds >= 0 && o.Seconds <= mostSeconds) {
		return o, fmt.Errorf("%w: %v seconds: give 0 for the default, or up to %d", ErrOptions, o.Seconds, mostSeconds)
	}
	if o.Threads < 0 || o.Threads > configs.MaxThreads {
		return o, fmt.Errorf("%w: %d threads: give 0 for all cores, or up to %d", ErrOptions, o.Threads, configs.MaxThreads)
	}
	if p := o.Precision; p != "" && p != float32Name && p != bf16Name {
		return o, fmt.Errorf("%w: precision %q: write %s or %s", ErrOptions, p, float32Name, bf16Name)
	}
	if r := o.Recompute; !slices.Contains([]partition.Recompute{"", partition.RecomputeNone, partition.RecomputeCheap, partition.RecomputeBlock}, r) {
		return o, fmt.Errorf("%w: recompute %q: write none, cheap or block", ErrOptions, r)
	}
	if o.Precision == "" {
		o.Precision = float32Name
	}
	if o.Seconds == 0 {
		o.Seconds = defaultSeconds
	}
	if o.Devices == "" {
		o.Devices = "cpu"
	}
	return o, nil
}

// Check refuses options, and devices that cannot be opened, as Run would, before
// anything is measured.
func (o RunOptions) Check() error {
	o, err := o.checked()
	if err != nil {
		return err
	}
	devs, err := openDevices(o.Devices, device.OpenOptions{Threads: o.Threads})
	for _, d := range devs {
		err = errors.Join(err, d.Close())
	}
	return err
}

// Run measures a workload: it warms up and runs steps for at least o.Seconds.
// Before and after it measures the devices' peak, so that a busy moment of the
// machine does not spoil it; both take less than two seconds together. When
// ctx is done Run stops and returns ctx's error. Memory and allocations are
// the process's: nothing else should run in it meanwhile.
func Run(ctx context.Context, w Workload, o RunOptions) (Result, error) {
	o, err := o.checked()
	if err != nil {
		return Result{}, err
	}
	before, err := measurePeak(ctx, o)
	if err != nil {
		return Result{}, err
	}
	res, err := train(ctx, w, o)
	if err != nil {
		return Result{}, fmt.Errorf("workload %s: %w", w.Name, err)
	}
	after, err := measurePeak(ctx, o)
	if err != nil {
		return Result{}, err
	}
	if before.gflops > after.gflops {
		after = before
	}
	res.PeakGflops, res.PeakSide = after.gflops, after.side
	res.PeakFraction = res.Gflops / after.gflops
	return res, nil
}

// train is the result but for the peak.
func train(ctx context.Context, w Workload, o RunOptions) (res Result, err error) {
	debug.FreeOSMemory() // what an earlier workload left
	resetPeakResident()
	s, err := open(ctx, w, o)
	if err != nil {
		return res, err
	}
	defer func() { err = errors.Join(err, s.close()) }()
	m, err := s.measure(ctx, o.Seconds)
	if err != nil {
		return res, err
	}
	res = newResult(s, m)
	res.Precision = o.Precision
	res.Loss, err = s.loss(ctx)
	return res, err
}

// measurement is what was seen of the steps.
type measurement struct {
	times         []time.Duration // sorted; of at least one step
	allocsPerStep float64
	stats         []device.Stats // per device
	resident      resident
}

// measure warms up and runs steps until the time is over.
func (s *session) measure(ctx context.Context, seconds float64) (measurement, error) {
	var m measurement
	each, err := s.warm(ctx, seconds*warmShare)
	if err != nil {
		return m, err
	}
	// No kernel's time may count for a step that does not.
	if err := s.finish(ctx); err != nil {
		return m, err
	}
	// Twice what is expected: the list should not grow while steps are measured.
	s.ends.restart(2 * int(seconds/each))
	s.kernels.restart()
	steps, start := 0, time.Now()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for ; steps == 0 || time.Since(start).Seconds() < seconds; steps++ {
		if err := s.step(ctx); err != nil {
			return m, err
		}
	}
	runtime.ReadMemStats(&after)
	m.allocsPerStep = float64(after.Mallocs-before.Mallocs) / float64(steps)
	if err := s.finish(ctx); err != nil {
		return m, err
	}
	m.times = s.ends.times()
	m.resident = readResident()
	for _, d := range s.devs {
		m.stats = append(m.stats, d.Stats())
	}
	return m, ctx.Err()
}

// warm runs steps that are not measured, and is how many seconds each took. The
// last may still be under way.
func (s *session) warm(ctx context.Context, seconds float64) (each float64, err error) {
	start, taken, n := time.Now(), 0.0, 0
	for ; n < warmSteps || taken < seconds; n++ {
		if err := s.step(ctx); err != nil {
			return 0, err
		}
		taken = time.Since(start).Seconds()
	}
	return taken / float64(n), nil
}
