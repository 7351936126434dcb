package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// opTarget is a loop of single ops, and its goal.
type opTarget struct {
	workload string
	what     string // of bench/opbyop and torch_ops.py; empty for a training step
	elements int
	torch    float64 // how many times as fast as the fastest PyTorch
	compiled float64 // at most that many times as slow as compiled steps
}

var opTargets = []opTarget{
	{workload: "add 1", what: "add", elements: 1, torch: 1},
	{workload: "add 10", what: "add", elements: 10, torch: 1},
	{workload: "add 100", what: "add", elements: 100, torch: 1},
	{workload: "add 1000", what: "add", elements: 1000, torch: 1},
	{workload: "add 1 with gradient", what: "autograd", elements: 1, torch: 2},
	{workload: "add 1000 with gradient", what: "autograd", elements: 1000, torch: 2},
	{workload: "mlp", torch: 2},
	{workload: "gpt-nano", compiled: 1.5},
}

// compiledName is steps that are compiled as a whole: trainer bench as it is.
const compiledName = "Berth, compiled steps"

// opSample is what bench/opbyop and torch_ops.py print.
type opSample struct {
	Version  string  `json:"version"`
	MedianUS float64 `json:"median_us"`
	MinUS    float64 `json:"min_us"`
	Blocks   int     `json:"blocks"`
}

func (s opSample) sample() sample {
	return sample{Version: s.Version, Steps: s.Blocks, StepMS: stepMS{Median: s.MedianUS / 1e3, Min: s.MinUS / 1e3}}
}

// opTargetOf is the row of a workload.
func opTargetOf(workload string) opTarget {
	return opTargets[slices.IndexFunc(opTargets, func(t opTarget) bool { return t.workload == workload })]
}

// compareOps measures single ops, and writes their table into opbyop.md.
func compareOps(ctx context.Context, o options, log io.Writer) (err error) {
	dir, err := os.MkdirTemp("", "peers")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	ps, err := opPrograms(ctx, o, dir, log)
	if err != nil {
		return err
	}
	t := turns{options: o, log: log, programs: ps}
	for round := range o.rounds {
		for _, w := range opTargets {
			if o.only != "" && !slices.Contains(strings.Split(o.only, ","), w.workload) {
				continue
			}
			if err := t.all(ctx, w.workload, round); err != nil {
				return err
			}
		}
	}
	table := newReport(t).opTable()
	fmt.Fprint(log, table)
	return replaceIn(filepath.Join(o.docs, "opbyop.md"), opsBegin, table)
}

// opPrograms are Berth op by op, Berth compiled, and the ways to run PyTorch.
func opPrograms(ctx context.Context, o options, dir string, log io.Writer) ([]program, error) {
	ops, trainer := filepath.Join(dir, "opbyop"), filepath.Join(dir, "trainer")
	if err := errors.Join(goBuild(ctx, o.root, ops, "./bench/opbyop"), goBuild(ctx, o.root, trainer, "./cmd/trainer")); err != nil {
		return nil, err
	}
	seconds, threads := fmt.Sprint(o.seconds), strconv.Itoa(o.threads)
	steps := func(ctx context.Context, workload string, more ...string) (sample, error) {
		var ss [1]sample
		args := append([]string{"bench", workload, "--json", "--threads", threads, "--seconds", seconds}, more...)
		err := output(exec.CommandContext(ctx, trainer, args...), &ss, &ss[0].PeakResidentBytes)
		return ss[0], err
	}
	ps := []program{{family: berthName, does: every, run: func(ctx context.Context, workload string) (sample, error) {
		w := opTargetOf(workload)
		if w.compiled > 0 {
			return steps(ctx, workload, "--op-by-op")
		}
		what := w.what
		if what == "" {
			what = workload
		}
		var s opSample
		c := exec.CommandContext(ctx, ops, "-what", what, "-elements", strconv.Itoa(max(1, w.elements)), "-seconds", seconds, "-threads", threads)
		err := output(c, &s, new(int64))
		return s.sample(), err
	}}, {family: compiledName, does: isStep, run: func(ctx context.Context, workload string) (sample, error) { return steps(ctx, workload) }}}
	torch, err := newTorch(ctx, o, log)
	if err != nil {
		fmt.Fprintf(log, "%s is left out: %v\n", torchName, err)
		return ps, nil
	}
	for i, p := range torch {
		step := p.run
		p.does = func(w string) bool { // the settings are for products: single additions take as long with all
			return opTargetOf(w).torch > 0 && (i == 0 || isStep(w))
		}
		p.run = func(ctx context.Context, workload string) (sample, error) {
			w := opTargetOf(workload)
			if w.what == "" {
				return step(ctx, workload)
			}
			var s opSample
			args := []string{w.what, "--elements", strconv.Itoa(w.elements), "--seconds", seconds, "--threads", threads}
			c := exec.CommandContext(ctx, p.python, append([]string{filepath.Join(o.root, "bench", "peers", "torch_ops.py")}, args...)...)
			c.Env = p.env
			err := output(c, &s, new(int64))
			return s.sample(), err
		}
		ps = append(ps, p)
	}
	return ps, nil
}

// isStep is true for workloads that are training steps.
func isStep(workload string) bool { return opTargetOf(workload).what == "" }

// opTable has a line for each program on each loop.
func (r report) opTable() string {
	var b strings.Builder
	m := r.Machine
	fmt.Fprintf(&b, "\n%s, %d cores, %d threads, %s, commit %s. %s. Rounds: %d, of %g s each.\n\n%s", m.CPU, m.Cores, r.Threads, m.System, m.Commit,
		r.versions(), r.Rounds, r.Seconds, r.disturbed())
	b.WriteString("| loop | program | µs, median | least | takes longer than Berth op by op, median | least | target |\n|---|---|--:|--:|--:|--:|--:|\n")
	for _, t := range opTargets {
		for _, e := range r.entries(t.workload) {
			if e.family == berthName {
				fmt.Fprintf(&b, "| **%s** | **op by op** | **%s** | %s | | | |\n", t.workload, ms(1e3*e.median), ms(1e3*e.min))
				continue
			}
			fmt.Fprintf(&b, "| | %s | %s | %s | %s | %s | %s |\n", e.name(), ms(1e3*e.median), ms(1e3*e.min), times2(e.slower), times2(e.slowerBy), t.of(e.family))
		}
	}
	return b.String()
}

// of is the goal against a family, in words.
func (t opTarget) of(family string) string {
	switch {
	case family == compiledName && t.compiled > 0:
		return fmt.Sprintf("≥ %.2f×", 1/t.compiled)
	case family == compiledName || t.torch == 0:
		return ""
	}
	return fmt.Sprintf("≥ %g×", t.torch)
}

// times2 is a ratio near 1.
func times2(x float64) string { return fmt.Sprintf("%.2f×", x) }
