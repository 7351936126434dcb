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
	steps         int             // at least one
	times         []time.Duration // of the steps, shortest first; of a rank without a part of the model none
	allocsPerStep float64
	stats         []device.Stats // per device
	resident      resident
	copies        trace.CopyTime // of all measured steps
	ranks         *Ranked        // what this rank did in them; nil: this process is alone
}

// measure warms up, then runs o.Steps steps, or steps until o.Seconds are over.
func measure(ctx context.Context, s *training, o RunOptions) (measurement, error) {
	var m measurement
	s.ranks.enter(s)
	defer s.ranks.leave()
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
	if err := s.ranks.agree(ctx, "its steps", nil); err != nil {
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
	s.ranks.begin()
	busy, start := s.rt.Busy(), time.Now()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	steps, err := s.run(ctx, func(n int) bool { return n >= o.Steps && time.Since(start).Seconds() >= seconds })
	if err != nil {
		return m, err
	}
	runtime.ReadMemStats(&after)
	m.allocsPerStep = float64(after.Mallocs-before.Mallocs) / float64(steps)
	if err := s.finish(); err != nil {
		return m, err
	}
	took := time.Since(start)
	for i, now := range s.rt.Busy() {
		busy[i] = now - busy[i]
	}
	m.ranks = s.ranks.rank(steps, busy, took)
	m.copies = s.on.Copies().Time()
	m.times = s.ends.times()
	m.resident = readResident()
	for i, d := range s.on.Devices {
		stats := device.Stats{}
		if s.on.Here(i) {
			stats = d.Stats()
		}
		m.stats = append(m.stats, stats)
	}
	m.steps = steps
	return m, s.ranks.agree(ctx, "its steps", nil)
}

// warmUp runs steps that are not measured, and returns the seconds that each
// took. The last step may still be under way.
func warmUp(ctx context.Context, s *training, seconds float64) (each float64, err error) {
	start := time.Now()
	n, err := s.run(ctx, func(n int) bool { return n >= warmSteps && time.Since(start).Seconds() >= seconds })
	return time.Since(start).Seconds() / float64(max(1, n)), err
}
