package bench

import (
	"time"

	"github.com/berth-ml/berth/engine/device"
	"github.com/berth-ml/berth/executor/trace"
	"github.com/berth-ml/berth/partition"
)

// Result is the measurement of a workload. Its rates follow from the median
// step, which a busy moment of the machine does not change.
type Result struct {
	Name         string `json:"name"`
	About        string `json:"about"`
	Batch        int    `json:"batch"`
	Microbatches int    `json:"microbatches"` // of a step
	Schedule     string `json:"schedule"`
	Stages       int    `json:"stages"`
	Replicas     int    `json:"replicas"`

	Reduction partition.Reduction `json:"reduction"` // order or tree
	Shard     partition.Shard     `json:"shard"`     // none or optimizer

	Parameters int64  `json:"parameters"`
	Precision  string `json:"precision"` // float32 or bf16
	Steps      int    `json:"steps"`     // that were measured

	StepMS      StepMS  `json:"step_ms"`
	SamplesPerS float64 `json:"samples_per_s"`
	TokensPerS  float64 `json:"tokens_per_s,omitempty"` // of workloads with tokens
	Loss        float64 `json:"loss"`                   // mean of the last step

	// WeightsSHA256 is the hash of all weights after the last step. It is
	// comparable between measurements with the same RunOptions.Steps.
	WeightsSHA256 string `json:"weights_sha256"`

	FlopsPerStep int64   `json:"flops_per_step"` // the model's arithmetic: see Flops
	Gflops       float64 `json:"gflops"`
	PeakGflops   float64 `json:"peak_gflops"`   // of a matrix product on equal devices, in the same precision
	PeakSide     int     `json:"peak_side"`     // that product's matrices were side×side
	PeakFraction float64 `json:"peak_fraction"` // Gflops / PeakGflops

	Profile []KernelTime `json:"profile,omitempty"` // the longest first; with RunOptions.Profile

	Looks *Looks `json:"looks,omitempty"` // with RunOptions.Watch

	Ranks *Ranked `json:"ranks,omitempty"` // with RunOptions.Ranks: Devices, memory and allocations are those of all

	AllocsPerStep     float64        `json:"allocs_per_step"` // of Go memory, by the whole process
	Arena             Arena          `json:"arena_peak_bytes"`
	Memory            []DeviceMemory `json:"device_memory"`
	Copies            Copies         `json:"copies_per_step"`
	ResidentBytes     int64          `json:"resident_bytes"`      // of the process, at the end; 0 if unknown
	PeakResidentBytes int64          `json:"peak_resident_bytes"` // of the process, from loading on; 0 if unknown

	Notes    []string `json:"-"` // how the plan is other than was asked for, in words
	Missed   []string `json:"-"` // the faults that did not happen, in words
	Retried  []string `json:"-"` // the failures of copies that were repeated, in words
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

// DeviceMemory is the memory of a device in bytes, and the bytes that move in a
// step because its limit is below the plan's peak.
type DeviceMemory struct {
	Device  string `json:"device"`
	Limit   int64  `json:"limit"`   // of the device
	Peak    int64  `json:"peak"`    // as planned, without a limit
	Floor   int64  `json:"floor"`   // the least limit, as planned
	Loaded  int64  `json:"loaded"`  // as planned
	Spilled int64  `json:"spilled"` // as planned
	Used    int64  `json:"used"`    // the most at once, as measured
}

// newDeviceMemory compares the plan's memory with the devices'.
func newDeviceMemory(s *training, stats []device.Stats) (list []DeviceMemory) {
	for _, f := range s.on.Plan.Memory {
		if !s.on.Here(f.Device) {
			continue
		}
		spec := s.on.Devices[f.Device].Spec()
		list = append(list, DeviceMemory{
			Device: string(spec.ID), Limit: spec.MemoryBytes, Peak: f.Peak, Floor: f.Floor, Loaded: f.Loaded, Spilled: f.Spilled, Used: stats[f.Device].Peak,
		})
	}
	return list
}

// Copies are the copies of a step: to devices, from devices and between them.
type Copies struct {
	BatchBytes   int64   `json:"batch_bytes"`   // of the batch
	LoadedBytes  int64   `json:"loaded_bytes"`  // from the host beside the batch: what was spilled before
	SpilledBytes int64   `json:"spilled_bytes"` // to the host, for want of device memory
	PeerBytes    int64   `json:"peer_bytes"`    // between devices
	HiddenMS     float64 `json:"hidden_ms"`     // the time of copies, moves within a device too, while their device computed
	ExposedMS    float64 `json:"exposed_ms"`    // the time of copies while it did not
}

// newCopies sums up a step's copies.
func newCopies(s *training, m measurement) Copies {
	l := s.rt.Residency.Ledger().SteadyState()
	c := Copies{SpilledBytes: l.Spill.Median, PeerBytes: l.Peer.Median}
	for _, v := range s.prog.Inputs() {
		c.BatchBytes += v.Meta.Bytes() * int64(s.parts)
	}
	if s.ranks != nil { // it is fed what it needs
		c.BatchBytes = min(l.CopyIn.Median, c.BatchBytes*s.rows/int64(s.w.Batch))
	}
	c.LoadedBytes = max(0, l.CopyIn.Median-c.BatchBytes)
	perStep := 1e3 / float64(m.steps)
	c.HiddenMS, c.ExposedMS = m.copies.Hidden.Seconds()*perStep, m.copies.Exposed.Seconds()*perStep
	return c
}

// newResult fills in all but what the options say, the loss, the weights and the peak.
func newResult(s *training, m measurement) Result {
	order := s.prog.Schedule()
	r := Result{
		Name: s.w.Name, About: s.w.About, Batch: s.w.Batch, Microbatches: s.parts, Parameters: s.w.Parameters,
		Schedule: order.Name, Stages: order.Stages, Replicas: order.Replicas, Copies: newCopies(s, m), Memory: newDeviceMemory(s, m.stats),
		Steps: len(m.times), StepMS: newStepMS(m.times), FlopsPerStep: Flops(s.graph) * int64(s.parts),
		Profile: s.kernels.perStep(len(m.times)), Looks: s.looks.result(), Ranks: m.ranks, AllocsPerStep: m.allocsPerStep, Arena: newArena(m.stats),
		ResidentBytes: m.resident.now, PeakResidentBytes: m.resident.peak, Machine: ThisMachine(),
	}
	if f := s.on.Plan.Fewer; f != nil {
		r.Notes = append(r.Notes, f.Note())
	}
	r.rates(s.w.Tokens)
	for i, d := range s.on.Devices {
		if !s.on.Here(i) {
			continue
		}
		spec := d.Spec()
		r.Devices = append(r.Devices, string(spec.ID))
		r.Threads += spec.Threads
		r.Numerics = spec.Numerics
	}
	return r
}

// rates sets what follows from the median step, but for the share of the peak. Samples have so many tokens.
func (r *Result) rates(tokens int) {
	if r.StepMS.Median == 0 { // of a rank that has no part of the model
		return
	}
	perSecond := 1e3 / r.StepMS.Median
	r.SamplesPerS = float64(r.Batch) * perSecond
	r.TokensPerS = float64(tokens) * r.SamplesPerS
	r.Gflops = float64(r.FlopsPerStep) * perSecond / 1e9
}

// newStepMS takes the statistics of sorted times; zero if there are none.
func newStepMS(sorted []time.Duration) StepMS {
	if len(sorted) == 0 {
		return StepMS{}
	}
	return StepMS{Median: percentileMS(sorted, 50), P95: percentileMS(sorted, 95), Min: percentileMS(sorted, 0)}
}

// percentileMS is a percentile of sorted times, at least one, in milliseconds.
func percentileMS(sorted []time.Duration, percent int) float64 {
	return float64(max(1, trace.Percentile(sorted, percent))) / float64(time.Millisecond)
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
