package main

import (
	"fmt"
	"io"
	"strings"
)

// target is what Berth is meant to reach on a workload. 0 is no target.
type target struct {
	workload string
	torch    float64            // as fast as the fastest PyTorch
	others   map[string]float64 // as fast as another family
	memory   float64            // resident, at most this share of PyTorch's as installed
	ofPeak   float64            // of the measured matrix product
}

var targets = []target{
	{workload: "mlp", torch: 2.5, others: map[string]float64{gomlxName: 6}, memory: 0.25},
	{workload: "cnn", torch: 3},
	{workload: "gpt-nano", torch: 3},
	{workload: "gpt-small", torch: 3, memory: 0.5, ofPeak: 0.65},
	{workload: "gpt2", torch: 3, others: map[string]float64{llmcName: 4}, memory: 0.75, ofPeak: 0.65},
}

// of is the target against a family, 0 if there is none.
func (t target) of(family string) float64 {
	if family == torchName || family == tunedName {
		return t.torch
	}
	return t.others[family]
}

// markdown writes the tables.
func (r report) markdown(w io.Writer) error {
	m := r.Machine
	_, err := fmt.Fprintf(w, "\n%s, %d cores, %d threads, %s, commit %s. %s. Rounds: %d, of %g s each.\n\n%s%s\n%s\n%s\n", m.CPU, m.Cores,
		r.Threads, m.System, m.Commit, r.versions(), r.Rounds, r.Seconds, r.disturbed(), r.timeTable(), r.floorTable(), r.memoryTable())
	return err
}

// timeTable is a line for each program on each workload.
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

// floorTable sets steps against the time that the model's arithmetic alone takes
// at the speed of this machine's matrix product.
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

// peak is the fastest float32 product that any turn saw: another program on the
// machine only makes it slower.
func (r report) peak() float64 {
	peak := 0.0
	for _, t := range r.Turns {
		if t.Family == berthName {
			peak = max(peak, t.PeakGflops)
		}
	}
	return peak
}

// memoryTable is each program's peak resident memory.
func (r report) memoryTable() string {
	var b strings.Builder
	b.WriteString("| workload | Berth, peak MiB |")
	families := []string{torchName, tunedName, gomlxName, llmcName}
	for _, f := range families {
		fmt.Fprintf(&b, " %s |", f)
	}
	b.WriteString(" Berth / PyTorch | target |\n|---|" + strings.Repeat("--:|", len(families)+3) + "\n")
	for _, t := range targets {
		resident := map[string]int64{}
		for _, e := range r.entries(t.workload) {
			resident[e.family] = e.resident
		}
		if resident[berthName] == 0 {
			continue
		}
		fmt.Fprintf(&b, "| %s | %s |", t.workload, mib(resident[berthName]))
		for _, f := range families {
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

// ms has three digits where that says something.
func ms(x float64) string {
	switch {
	case x < 10:
		return fmt.Sprintf("%.2f", x)
	case x < 100:
		return fmt.Sprintf("%.1f", x)
	}
	return fmt.Sprintf("%.0f", x)
}

func mib(n int64) string {
	if n == 0 {
		return ""
	}
	return fmt.Sprintf("%d", n>>20)
}

// times is a ratio, or nothing where there is none.
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
