package main

import (
	"fmt"
	"io"
	"math"
	"strings"

	"github.com/berth-ml/berth/internal/units"
)

// markdown writes the tables.
func (r report) markdown(w io.Writer) error {
	m := r.Machine
	_, err := fmt.Fprintf(w, "\n%s, %d cores, %d threads, %s, commit %s. %s. Rounds: %d, of %g s each.\n\n%s%s\n%s\n%s\n", m.CPU, m.Cores,
		r.Threads, m.System, m.Commit, r.versions(), r.Rounds, r.Seconds, r.disturbed(), r.timeTable(), r.floorTable(), r.memoryTable())
	return err
}

// disturbed is a warning if other programs took much of the machine: medians say
// little then.
func (r report) disturbed() string {
	if m := r.others(); m > 0.05 {
		return fmt.Sprintf("Other programs took %.0f%% of the processors in the median turn: compare the columns *least*.\n\n", 100*m)
	}
	return ""
}

// others is the share of the machine that other programs took in the median turn.
func (r report) others() float64 {
	var shares []float64
	for _, t := range r.Turns {
		shares = append(shares, t.Others)
	}
	return median(shares)
}

// timeTable has a line for each program on each workload.
func (r report) timeTable() string {
	var b strings.Builder
	b.WriteString("| workload | program | step ms, median | least | takes longer than Berth, median | least | target |\n|---|---|--:|--:|--:|--:|--:|\n")
	for _, t := range targets {
		for _, e := range r.entries(t.workload) {
			if e.family == berthName {
				fmt.Fprintf(&b, "| **%s** | **%s** | **%s** | %s | | | |\n", t.workload, berthName, ms(e.median), ms(e.min))
				continue
			}
			fmt.Fprintf(&b, "| | %s | %s | %s | %s | %s | %s |\n",
				e.name(), ms(e.median), ms(e.min), times(e.slower), times(e.slowerBy), atLeast(t.of(e.family)))
		}
	}
	return b.String()
}

func (e entry) name() string { return program{family: e.family, variant: e.variant}.name() }

// floorTable compares steps with their floor: the time of the model's arithmetic
// alone, at the rate of this machine's matrix product.
func (r report) floorTable() string {
	var b strings.Builder
	b.WriteString("| workload | arithmetic of a step, Gflop | matrix product, Gflop/s | floor ms | Berth ms | floor / Berth | target | PyTorch / floor | PyTorch tuned / floor |\n" +
		"|---|--:|--:|--:|--:|--:|--:|--:|--:|\n")
	for _, t := range targets {
		ts := r.byRound(t.workload, berthName, "")
		if len(ts) == 0 {
			continue
		}
		flops, peak := float64(ts[0].FlopsPerStep)/1e9, r.peak()
		floor, took := 1e3*flops/peak, map[string]float64{}
		for _, e := range r.entries(t.workload) {
			took[e.family] = e.median
		}
		want := ""
		if t.ofPeak > 0 {
			want = fmt.Sprintf("≥ %.0f%%", 100*t.ofPeak)
		}
		fmt.Fprintf(&b, "| %s | %.2f | %.0f | %s | %s | %.0f%% | %s | %s | %s |\n", t.workload, flops, peak, ms(floor), ms(took[berthName]),
			100*floor/took[berthName], want, times(took[torchName]/floor), times(took[tunedName]/floor))
	}
	return b.String()
}

// peak is the rate of the fastest float32 product in any turn, in Gflop/s: other
// programs on the machine can only lower it.
func (r report) peak() float64 {
	peak := 0.0
	for _, t := range r.Turns {
		if t.Family == berthName {
			peak = max(peak, t.PeakGflops)
		}
	}
	return peak
}

// memoryTable lists each program's peak resident memory.
func (r report) memoryTable() string {
	var b strings.Builder
	b.WriteString("| workload | Berth, peak MiB |")
	others := []string{torchName, tunedName, gomlxName, llmcName}
	for _, f := range others {
		fmt.Fprintf(&b, " %s |", f)
	}
	b.WriteString(" Berth / PyTorch | target |\n|---|" + strings.Repeat("--:|", len(others)+3) + "\n")
	for _, t := range targets {
		resident := map[string]int64{}
		for _, e := range r.entries(t.workload) {
			resident[e.family] = e.resident
		}
		if resident[berthName] == 0 {
			continue
		}
		fmt.Fprintf(&b, "| %s | %s |", t.workload, mib(resident[berthName]))
		for _, f := range others {
			fmt.Fprintf(&b, " %s |", mib(resident[f]))
		}
		share, want := "", ""
		if of := resident[torchName]; of > 0 {
			share = fmt.Sprintf("%.2f×", float64(resident[berthName])/float64(of))
		}
		if t.memory > 0 {
			want = fmt.Sprintf("≤ %g×", t.memory)
		}
		fmt.Fprintf(&b, " %s | %s |\n", share, want)
	}
	return b.String()
}

// ms is a time with three digits, or with all digits before the point.
func ms(x float64) string {
	switch {
	case x < 10:
		return fmt.Sprintf("%.2f", x)
	case x < 100:
		return fmt.Sprintf("%.1f", x)
	}
	return units.Thousands(int64(math.Round(x)))
}

func mib(n int64) string {
	if n == 0 {
		return ""
	}
	return fmt.Sprintf("%d", n>>20)
}

// times is a ratio; empty if it is 0.
func times(x float64) string {
	if x == 0 {
		return ""
	}
	return fmt.Sprintf("%.1f×", x)
}

func atLeast(x float64) string {
	if x == 0 {
		return ""
	}
	return fmt.Sprintf("≥ %g×", x)
}
