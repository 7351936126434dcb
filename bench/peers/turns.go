package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"syscall"

	"github.com/berth-ml/berth/bench/peers/usage"
)

// turns gives programs their turns and collects the samples.
type turns struct {
	options
	log      io.Writer
	programs []program
	measured []turn
}

// all gives every program a turn on a workload; every other round reverses the
// order. A program that fails has no turn, and the others go on. Berth must not
// fail: all are compared with it.
func (t *turns) all(ctx context.Context, workload string, round int) error {
	for i := range t.programs {
		if round%2 == 1 {
			i = len(t.programs) - 1 - i
		}
		p := t.programs[i]
		if !p.does(workload) {
			continue
		}
		s, others, err := t.one(ctx, p, workload)
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case err != nil && p.family == berthName:
			return fmt.Errorf("%s of %s: %w", workload, p.name(), err)
		case err != nil:
			fmt.Fprintf(t.log, "round %d/%d  %-9s  %s failed: %v\n", round+1, t.rounds, workload, p.name(), err)
			continue
		}
		t.measured = append(t.measured, turn{workload, round, p.family, p.variant, others, s})
		fmt.Fprintf(t.log, "round %d/%d  %-9s  %-55s  %9.4g ms, least %9.4g, %d MiB, others took %.0f%%\n", round+1, t.rounds, workload, p.name(),
			s.StepMS.Median, s.StepMS.Min, s.PeakResidentBytes>>20, 100*others)
	}
	return nil
}

// one gives a program a single turn, under the lock if there is one. others is
// the share of the machine that other programs took meanwhile.
func (t *turns) one(ctx context.Context, p program, workload string) (s sample, others float64, err error) {
	if t.lock != "" {
		f, err := os.OpenFile(t.lock, os.O_RDWR|os.O_CREATE, 0o644)
		if err != nil {
			return s, 0, err
		}
		defer f.Close() // which also unlocks
		if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX); err != nil {
			return s, 0, fmt.Errorf("lock %s: %w", t.lock, err)
		}
	}
	before := usage.Read()
	s, err = p.run(ctx, workload)
	return s, usage.Read().OthersSince(before), err
}
