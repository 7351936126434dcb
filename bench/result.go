package bench

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/berth-ml/berth/engine/device"
)

// Result is what was measured of a workload. Rates follow from the median
// step, which one busy moment of the machine does not change.
type Result struct {
	Name       string `json:"name"`
	About      string `json:"about"`
	Batch      int    `json:"batch"`
	Parameters int64  `json:"parameters"`
	Precision  string `json:"precision"` // float32 or bf16
	Steps      int    `json:"steps"`     // measured

	StepMS      StepMS  `json:"step_ms"`
	SamplesPerS float64 `json:"samples_per_s"`
	TokensPerS  float64 `json:"tokens_per_s,omitempty"` // where samples are of tokens
	Loss        float64 `json:"loss"`                   // mean of the last step: a sign that it trained

	FlopsPerStep int64   `json:"flops_per_step"` // the model's arithmetic: see Flops
	Gflops       float64 `json:"gflops"`
	PeakGflops   float64 `json:"peak_gflops"`   // of a matrix product on the same devices, in the same precision
	PeakSide     int     `json:"peak_side"`     // that product's matrices were side×side
	PeakFraction float64 `json:"peak_fraction"` // Gflops / PeakGflops

	Profile []KernelTime `json:"profile,omitempty"` // what took longest first

	AllocsPerStep     float64 `json:"allocs_per_step"` // of Go memory, by the whole process
	Arena             Arena   `json:"arena_peak_bytes"`
	ResidentBytes     int64   `json:"resident_bytes"`      // of the process, at the end; 0 if unknown
	PeakResidentBytes int64   `json:"peak_resident_bytes"` // of the process, setting up included; 0 if unknown

	Devices  []string `json:"devices"`
	Threads  int      `json:"threads"`            // over all devices
	Numerics string   `json:"numerics,omitempty"` // what the devices compute with: see device.Spec
	Machine  Machine  `json:"machine"`
}

// StepMS is the time of a step in milliseconds, from the end of the one before
// it to its own, as the device tells them.
type StepMS struct {
	Median float64 `json:"median"`
	P95    float64 `json:"p95"`
	Min    float64 `json:"min"`
}

// Arena is the most device memory that was in use at once, over all devices.
// Usages may have their peaks at different times, and so sum to more
// than the total.
type Arena struct {
	Total   int64            `json:"total"`
	ByUsage map[string]int64 `json:"by_usage"`
}

// newResult is everything but the loss and the peak.
func newResult(s *session, m measurement) Result {
	r := Result{
		Name: s.w.Name, About: s.w.About, Batch: s.w.Batch, Parameters: s.w.Parameters,
		Steps: len(m.times), StepMS: newStepMS(m.times), FlopsPerStep: Flops(s.graph),
		Profile: s.kernels.perStep(len(m.times)), AllocsPerStep: m.allocsPerStep, Arena: newArena(m.stats),
		ResidentBytes: m.resident.now, PeakResidentBytes: m.resident.peak, Machine: ThisMachine(),
	}
	perSecond := 1e3 / r.StepMS.Median
	r.SamplesPerS = float64(s.w.Batch) * perSecond
	r.TokensPerS = float64(s.w.Tokens) * r.SamplesPerS
	r.Gflops = float64(r.FlopsPerStep) * perSecond / 1e9
	for _, d := range s.devs {
		spec := d.Spec()
		r.Devices = append(r.Devices, string(spec.ID))
		r.Threads += spec.Threads
		r.Numerics = spec.Numerics
	}
	return r
}

// newStepMS sums up sorted times, of which there is at least one.
func newStepMS(sorted []time.Duration) StepMS {
	at := func(p float64) float64 {
		i := min(len(sorted)-1, int(p*float64(len(sorted))))
		return float64(max(1, sorted[i])) / float64(time.Millisecond)
	}
	return StepMS{Median: at(0.5), P95: at(0.95), Min: at(0)}
}

func newArena(stats []device.Stats) Arena {
	a := Arena{ByUsage: map[string]int64{}}
	for _, s := range stats {
		a.Total += s.Peak
		for u := range device.Usage(device.NumUsages) {
			a.ByUsage[u.String()] += s.PeakBy[u]
		}
	}
	return a
}

// WriteTable prints results as a table, a line each, under the machine's name.
func WriteTable(w io.Writer, rs []Result) error {
	if len(rs) == 0 {
		return nil
	}
	m := rs[0].Machine
	on := append(slices.Clone(rs[0].Devices), rs[0].Numerics)
	fmt.Fprintf(w, "%s, %s on %s, %s, commit %s\n\n", m.CPU, threads(rs[0].Threads), strings.TrimSpace(strings.Join(on, " ")), m.Go, m.Commit)
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "WORKLOAD\tSTEPS\tMEDIAN ms\tP95\tMIN\tSAMPLES/s\tTOKENS/s\tGFLOP/s\tOF PEAK\tALLOCS/STEP\tARENA MiB\tRESIDENT MiB\t")
	for _, r := range rs {
		tokens := "-"
		if r.TokensPerS > 0 {
			tokens = fmt.Sprintf("%.0f", r.TokensPerS)
		}
		fmt.Fprintf(t, "%s\t%d\t%.2f\t%.2f\t%.2f\t%.0f\t%s\t%.1f\t%.0f%%\t%.1f\t%.1f\t%.1f\t\n",
			r.Name, r.Steps, r.StepMS.Median, r.StepMS.P95, r.StepMS.Min, r.SamplesPerS, tokens,
			r.Gflops, 100*r.PeakFraction, r.AllocsPerStep, mib(r.Arena.Total), mib(r.PeakResidentBytes))
	}
	return t.Flush()
}

func threads(n int) string {
	if n == 1 {
		return "1 thread"
	}
	return fmt.Sprintf("%d threads", n)
}

func mib(n int64) float64 { return float64(n) / (1 << 20) }
