package main

// sample is a program's measurement in one turn.
type sample struct {
	Version string  `json:"version"`
	Steps   int     `json:"steps"`
	Loss    float64 `json:"loss"`
	StepMS  stepMS  `json:"step_ms"`
	// PeakResidentBytes is of the whole process, from its start.
	PeakResidentBytes int64 `json:"peak_resident_bytes"`

	// Only set by Berth.
	FlopsPerStep int64   `json:"flops_per_step,omitempty"`
	PeakGflops   float64 `json:"peak_gflops,omitempty"`
	Machine      machine `json:"machine,omitzero"`
	Copies       copies  `json:"copies_per_step,omitzero"`
	Served       *served `json:"served,omitempty"`
}

type stepMS struct {
	Median float64 `json:"median"`
	Min    float64 `json:"min"`
}

// machine describes the machine, as `trainer bench --json` prints it.
type machine struct {
	CPU    string `json:"cpu"`
	Cores  int    `json:"cores"`
	System string `json:"system"`
	Go     string `json:"go"`
	Commit string `json:"commit"`
}

// turn is one program's turn on a workload.
type turn struct {
	Workload string `json:"workload"`
	Round    int    `json:"round"`
	Family   string `json:"program"`
	Variant  string `json:"variant,omitempty"`
	// Others is the share of the machine that other programs took meanwhile.
	Others float64 `json:"others"`
	sample
}
