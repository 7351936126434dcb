package main

// target is the goal of Berth on a workload; 0 means no goal.
type target struct {
	workload string
	torch    float64            // how many times as fast as the fastest PyTorch
	others   map[string]float64 // how many times as fast as other families
	memory   float64            // at most this share of the resident memory of PyTorch as installed
	ofPeak   float64            // at least this share of the rate of the measured matrix product
}

// targets lists the workloads, with their goals.

var targets = []target{
	{workload: "mlp", torch: 2.5, others: map[string]float64{gomlxName: 6}, memory: 0.25},
	{workload: "cnn", torch: 3},
	{workload: "gpt-nano", torch: 3},
	{workload: "gpt-small", torch: 3, memory: 0.5, ofPeak: 0.65},
	{workload: "resnet-18"},
	{workload: "vit-tiny"},
	{workload: "gpt2", torch: 3, others: map[string]float64{llmcName: 4}, memory: 0.75, ofPeak: 0.65},
}

// of is the goal against a family, 0 if there is none.
func (t target) of(family string) float64 {
	if family == torchName || family == tunedName {
		return t.torch
	}
	return t.others[family]
}
