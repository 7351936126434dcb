package bench

import (
	"time"

	"github.com/berth-ml/berth/engine/device"
)

// Result is the measurement of a workload. Its rates follow from the median
// step, which a busy moment of the machine does not change.
type Result struct {
	Name       string `json:"name"`
	About      string `json:"about"`
	Batch      int    `json:"batch"`
	Parameters int64  `json:"parameters"`
	Precision  string `json:"precision"` // float32 or bf16
	Steps      int    `json:"steps"`     // that were measured

	StepMS      StepMS  `json:"step_ms"`
	SamplesPerS float64 `json:"samples_per_s"`
	TokensPerS  float64 `json:"tokens_per_s,omitempty"` // of workloads with tokens
	Loss        float64 `json:"loss"`                   // mean of the last step

	FlopsPerStep int64   `json:"flops_per_step"` // the model's arithmetic: see Flops
	Gflops       float64 `json:"gflops"`
	PeakGflops   float64 `json:"peak_gflops"`   // of a matrix product on equal devices, in the same precision
	PeakSide     int     `json:"peak_side"`     // that product's matrices were side×side
	PeakFraction float64 `json:"peak_fraction"` // Gflops / PeakGflops

	Profile []KernelTime `json:"profile,omitempty"` // the longest first; with RunOptions.Profile

	AllocsPerStep     float64 `json:"allocs_per_step"` // of Go memory, by the whole process
	Arena             Arena   `json:"arena_peak_bytes"`
	ResidentBytes     int64   `json:"resident_bytes"`      // of the process, at the end; 0 if unknown
	PeakResidentBytes int64   `json:"peak_resident_bytes"` // of the process, from loading on; 0 if unknown

	Devices  []string `json:"devices"`
	Threads  int      `json:"threads"`            // over all devices
	Numerics string   `json:"numerics,omitempty"` // as in device.Spec
	Machine  Machine  `json:"machine"`
}

// StepMS is the time of a step in milliseconds: from the end of the step before
// to its own end, as the device reports them.
type StepMS struct {
	Median float64 `json:"median"`
	P95    float64 `json:"p95"`
	Min    float64 `json:"min"`
}

// Arena is the peak of device memory in bytes, summed over the devices. Usages
// may peak at different times, so they can sum to more than the total.
type Arena struct {
	Total   int64            `json:"total"`
	ByUsage map[string]int64 `json:"by_usage"`
}

// newResult fills in all but the precision, the loss and the peak.
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

// newStepMS takes the statistics of sorted times, at least one.
func newStepMS(sorted []time.Duration) StepMS {
	at := func(p float64) float64 {
		i := min(len(sorted)-1, int(p*float64(len(sorted))))
		return float64(max(1, sorted[i])) / float64(time.Millisecond)
	}
	return StepMS{Median: at(0.5), P95: at(0.95), Min: at(0)}
}

// newArena sums up the peaks of the devices.
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
