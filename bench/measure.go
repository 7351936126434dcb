package bench

import (
	"context"
	"runtime"
	"time"

	"github.com/berth-ml/berth/engine/device"
	"github.com/berth-ml/berth/executor/trace"
)

const (
	// warmSteps is the least number of steps to warm up with: the first ones
	// still set things up.
	warmSteps = 3
	// warmShare is the time to warm up for, as a share of the measured time: by
	// then clocks and caches have settled.
	warmShare = 0.2
)

// measurement is the result of measure.
type measurement struct {
	times         []time.Duration // of the steps, at least one, shortest first
	allocsPerStep float64
	stats         []device.Stats // per device
	resident      resident
	copies        trace.CopyTime // of all measured steps
}

// measure warms up, then runs o.Steps steps, or steps until o.Seconds are over.
func measure(ctx context.Context, s *training, o RunOptions) (measurement, error) {
	var m measurement
	seconds := o.Seconds
	if o.Steps > 0 {
		seconds = 0 // no warm-up beyond the least, whose steps are always as many
	}
	each, err := warmUp(ctx, s, seconds*warmShare)
	if err != nil {
		return m, err
	}
	// Kernels of unmeasured steps must not enter the profile.
	if err := s.finish(); err != nil {
		return m, err
	}
	// Room for twice the expected steps: growing the list would be measured too.
	s.ends.restart(max(o.Steps, 2*int(seconds/each)))
	s.kernels.restart()
	if s.looks != nil {
		s.looks.begin(s, o.Watch)
	}
	s.on.Copies().Restart()
	s.on.Copies().Begin()
	steps, start := 0, time.Now()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for ; steps == 0 || steps < o.Steps || time.Since(start).Seconds() < seconds; steps++ {
		if err := s.step(ctx); err != nil {
			return m, err
		}
	}
	runtime.ReadMemStats(&after)
	m.allocsPerStep = float64(after.Mallocs-before.Mallocs) / float64(steps)
	if err := s.finish(); err != nil {
		return m, err
	}
	m.copies = s.on.Copies().Time()
	m.times = s.ends.times()
	m.resident = readResident()
	for _, d := range s.on.Devices {
		m.stats = append(m.stats, d.Stats())
	}
	return m, ctx.Err()
}

// warmUp runs steps that are not measured, and returns the seconds that each
// took. The last step may still be under way.
func warmUp(ctx context.Context, s *training, seconds float64) (each float64, err error) {
	start, taken, n := time.Now(), 0.0, 0
	for ; n < warmSteps || taken < seconds; n++ {
		if err := s.step(ctx); err != nil {
			return 0, err
		}
		taken = time.Since(start).Seconds()
	}
	return taken / float64(n), nil
}
