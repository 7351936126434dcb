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

// The workloads of the tables about Berth alone, and their ways. The first way of each is
// the one that the others are compared with.
var (
	ownServed  = []string{"mlp", "cnn", "gpt-nano"}
	ownSpilled = []string{"gpt-nano", "gpt-small"}

	clientCounts = []string{"1 client", "32 clients"}
	memoryShares = []string{"100%", "60%", "40%"}
)

// ownMicrobatches are those of steps in little memory.
const ownMicrobatches = 2

// measureOwn measures requests to a server and steps in little memory, and writes their
// tables into performance.md.
func measureOwn(ctx context.Context, o options, log io.Writer) (err error) {
	dir, err := os.MkdirTemp("", "peers")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	trainer := filepath.Join(dir, "trainer")
	if err := goBuild(ctx, o.root, trainer, "./cmd/trainer"); err != nil {
		return err
	}
	page := filepath.Join(o.docs, "performance.md")
	served, err := o.own(ctx, servePrograms(o, trainer), ownServed, log)
	if err != nil {
		return err
	}
	fmt.Fprint(log, served.serveTable())
	if err := replaceIn(page, serveBegin, served.serveTable()); err != nil {
		return err
	}
	spilled, err := o.own(ctx, spillPrograms(o, trainer), ownSpilled, log)
	if err != nil {
		return err
	}
	fmt.Fprint(log, spilled.spillTable())
	return replaceIn(page, spillBegin, spilled.spillTable())
}

// own gives the ways of a table their turns.
func (o options) own(ctx context.Context, ps []program, workloads []string, log io.Writer) (report, error) {
	t := turns{options: o, log: log, programs: ps}
	for round := range o.rounds {
		for _, w := range workloads {
			if o.only != "" && !slices.Contains(strings.Split(o.only, ","), w) {
				continue
			}
			if err := t.all(ctx, w, round); err != nil {
				return report{}, err
			}
		}
	}
	return newReport(t), nil
}

// benchmark runs trainer bench with these arguments, and reads the one result into into.
func (o options) benchmark(ctx context.Context, trainer string, into any, peak *int64, args ...string) error {
	args = append([]string{"bench"}, append(args, "--json", "--threads", strconv.Itoa(o.threads), "--seconds", fmt.Sprint(o.seconds))...)
	return output(exec.CommandContext(ctx, trainer, args...), into, peak)
}

// servePrograms are servers with few and with many clients.
func servePrograms(o options, trainer string) (ps []program) {
	for _, clients := range clientCounts {
		count, _, _ := strings.Cut(clients, " ")
		ps = append(ps, program{family: berthName, variant: clients, does: every, run: func(ctx context.Context, workload string) (sample, error) {
			var all [1]served
			err := o.benchmark(ctx, trainer, &all, &all[0].PeakResidentBytes, workload, "--serve", "--clients", count)
			s := &all[0]
			return sample{
				Steps: s.Requests, StepMS: stepMS{Median: s.LatencyMS.Median}, PeakResidentBytes: s.PeakResidentBytes, Machine: s.Machine, Served: s,
			}, err
		}})
	}
	return ps
}

// spillPrograms are steps in shares of the memory that they would take.
func spillPrograms(o options, trainer string) (ps []program) {
	for _, share := range memoryShares {
		ps = append(ps, program{family: berthName, variant: share, does: every, run: func(ctx context.Context, workload string) (sample, error) {
			var all [1]sample
			err := o.benchmark(ctx, trainer, &all, &all[0].PeakResidentBytes, workload, "--device-memory", share, "--microbatches", strconv.Itoa(ownMicrobatches))
			return all[0], err
		}})
	}
	return ps
}

// served is a server's measurement, as `trainer bench --serve --json` prints it.
type served struct {
	Requests     int     `json:"requests"`
	RequestsPerS float64 `json:"requests_per_s"`
	LatencyMS    struct {
		Median float64 `json:"median"`
		P99    float64 `json:"p99"`
	} `json:"latency_ms"`
	SamplesPerBatch   float64 `json:"samples_per_batch"`
	PeakResidentBytes int64   `json:"peak_resident_bytes"`
	Machine           machine `json:"machine"`
}

// copies are those of a step, as `trainer bench --json` prints them.
type copies struct {
	LoadedBytes  int64   `json:"loaded_bytes"`
	SpilledBytes int64   `json:"spilled_bytes"`
	HiddenMS     float64 `json:"hidden_ms"`
	ExposedMS    float64 `json:"exposed_ms"`
}

// middle is the median of a number over the turns of a way; least is the least.
func (r report) middle(workload, variant string, of func(sample) float64) (middle, least float64) {
	var list []float64
	for _, t := range r.Turns {
		if t.Workload == workload && t.Variant == variant {
			list = append(list, of(t.sample))
		}
	}
	if list == nil {
		return 0, 0
	}
	return median(list), slices.Min(list)
}

// began says on which machine, and how long was measured.
func (r report) began() string {
	m, busy := r.Machine, ""
	if x := r.others(); x > 0.05 {
		busy = fmt.Sprintf("Other programs took %.0f%% of the processors in the median turn: a quiet machine is faster.\n\n", 100*x)
	}
	return fmt.Sprintf("\n%s, %d cores, %d threads, %s, commit %s. Rounds: %d, of %g s each.\n\n%s", m.CPU, m.Cores, r.Threads, m.System, m.Commit,
		r.Rounds, r.Seconds, busy)
}

// serveTable has a line for each workload.
func (r report) serveTable() string {
	var b strings.Builder
	b.WriteString(r.began())
	b.WriteString("| workload | one request alone, median ms | 99th percentile | 32 clients, requests/s | median ms | 99th percentile | samples in a batch |\n" +
		"|---|--:|--:|--:|--:|--:|--:|\n")
	one, many := clientCounts[0], clientCounts[1]
	for _, w := range ownServed {
		at := func(variant string, of func(*served) float64) float64 {
			x, _ := r.middle(w, variant, func(s sample) float64 { return of(s.Served) })
			return x
		}
		latency, late := func(s *served) float64 { return s.LatencyMS.Median }, func(s *served) float64 { return s.LatencyMS.P99 }
		rate := at(many, func(s *served) float64 { return s.RequestsPerS })
		if rate == 0 {
			continue
		}
		fmt.Fprintf(&b, "| %s | %s | %s | %.0f | %s | %s | %.1f |\n", w, ms(at(one, latency)), ms(at(one, late)), rate,
			ms(at(many, latency)), ms(at(many, late)), at(many, func(s *served) float64 { return s.SamplesPerBatch }))
	}
	return b.String()
}

// spillTable has a line for each workload and share of the memory.
func (r report) spillTable() string {
	var b strings.Builder
	b.WriteString(r.began())
	b.WriteString("| workload | memory | step ms, median | least | of the step with all memory, median | least | moved MiB | copies during launches, ms | alone, ms |\n" +
		"|---|--:|--:|--:|--:|--:|--:|--:|--:|\n")
	step := func(s sample) float64 { return s.StepMS.Median }
	least := func(s sample) float64 { return s.StepMS.Min }
	for _, w := range ownSpilled {
		all, _ := r.middle(w, memoryShares[0], step)
		_, allLeast := r.middle(w, memoryShares[0], least)
		for _, share := range memoryShares {
			took, _ := r.middle(w, share, step)
			if took == 0 {
				continue
			}
			_, tookLeast := r.middle(w, share, least)
			moved, _ := r.middle(w, share, func(s sample) float64 { return float64(s.Copies.LoadedBytes+s.Copies.SpilledBytes) / (1 << 20) })
			hidden, _ := r.middle(w, share, func(s sample) float64 { return s.Copies.HiddenMS })
			exposed, _ := r.middle(w, share, func(s sample) float64 { return s.Copies.ExposedMS })
			fmt.Fprintf(&b, "| %s | %s | %s | %s | %s | %s | %.1f | %s | %s |\n", w, share, ms(took), ms(tookLeast),
				times2(took/all), times2(tookLeast/allLeast), moved, ms(hidden), ms(exposed))
		}
	}
	return b.String()
}
