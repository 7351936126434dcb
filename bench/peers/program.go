package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
)

// program is one of those that take turns.
type program struct {
	family  string // whose variants compete with each other: see report
	variant string // which of the family's; may be empty
	does    func(workload string) bool
	run     func(ctx context.Context, workload string) (sample, error)
}

func (p program) name() string {
	if p.variant == "" {
		return p.family
	}
	return p.family + ", " + p.variant
}

// sample is what a program measured in a turn.
type sample struct {
	Version string  `json:"version"`
	Steps   int     `json:"steps"`
	Loss    float64 `json:"loss"`
	StepMS  stepMS  `json:"step_ms"`
	// PeakResidentBytes is the whole process's, setting up included.
	PeakResidentBytes int64 `json:"peak_resident_bytes"`

	// Only of Berth.
	FlopsPerStep int64   `json:"flops_per_step,omitempty"`
	PeakGflops   float64 `json:"peak_gflops,omitempty"`
	Machine      machine `json:"machine,omitzero"`
}

type stepMS struct {
	Median float64 `json:"median"`
	Min    float64 `json:"min"`
}

// machine is what `trainer bench --json` says of it.
type machine struct {
	CPU    string `json:"cpu"`
	Cores  int    `json:"cores"`
	System string `json:"system"`
	Go     string `json:"go"`
	Commit string `json:"commit"`
}

// output runs a command to its end and reads the JSON that it prints. Peak
// memory is the process's, unless it said so itself.
func output(c *exec.Cmd, into any, peak *int64) error {
	var out, errs bytes.Buffer
	c.Stdout, c.Stderr = &out, &errs
	if err := c.Run(); err != nil {
		return fmt.Errorf("%s: %w: %s", c, err, strings.TrimSpace(errs.String()))
	}
	if err := json.Unmarshal(out.Bytes(), into); err != nil {
		return fmt.Errorf("%s: %w", c, err)
	}
	if *peak == 0 {
		*peak = peakResident(c)
	}
	return nil
}

// peakResident is in bytes, of a command that is over.
func peakResident(c *exec.Cmd) int64 {
	use, ok := c.ProcessState.SysUsage().(*syscall.Rusage)
	if !ok {
		return 0
	}
	return use.Maxrss << 10 // in KiB on Linux
}

// turns collects what everyone measured.
type turns struct {
	options
	log      io.Writer
	programs []program
	measured []turn
}

// turn is one of them.
type turn struct {
	Workload string `json:"workload"`
	Round    int    `json:"round"`
	Family   string `json:"program"`
	Variant  string `json:"variant,omitempty"`
	// Others is the share of the machine that other programs took meanwhile.
	Others float64 `json:"others"`
	sample
}

// all gives everyone a turn on a workload, in the opposite order every other
// round. Who fails has none, and the others go on; without Berth there is
// nothing to compare with.
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
		fmt.Fprintf(t.log, "round %d/%d  %-9s  %-55s  %9.2f ms, least %9.2f, %d MiB, others took %.0f%%\n", round+1, t.rounds, workload, p.name(),
			s.StepMS.Median, s.StepMS.Min, s.PeakResidentBytes>>20, 100*others)
	}
	return nil
}

// one is a single turn, under the lock if there is one, and the share of the
// machine that others took meanwhile.
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
	before := readUsage()
	s, err = p.run(ctx, workload)
	return s, readUsage().othersSince(before), err
}

func every(string) bool { return true }

// only is true of one workload.
func only(workload string) func(string) bool {
	return func(w string) bool { return w == workload }
}
