package order

import (
	"cmp"

	"github.com/berth-ml/berth/executor/schedule"
)

// Pipeline says in which order a step runs the stages of each replica, and on which
// devices. A cut asks it about the first replica alone, a step about all of them.
type Pipeline struct {
	Name         string             // of the schedule
	Order        *schedule.Schedule // that order itself, in place of a named one
	Microbatches int                // of a step
	Replicas     int                // of each stage; 0 means 1
	Shares       []int              // of a named schedule, as schedule.Spec.Shares
	Devices      int                // of all replicas
	On           []int              // device of each stage, by hand; nil deals them out
}

// PerReplica is the number of devices that each replica has. Those left over are not used.
func (p Pipeline) PerReplica() int { return p.Devices / max(1, p.Replicas) }

// RoundsPerDevice is the number of stages on each device that an interleaved
// schedule gets by default: more make the bubble smaller and the copies more.
const RoundsPerDevice = 2

// Default is the meaning of "" in PlanOptions.Schedule.
const Default = "1f1b"

// Interleaved is the name of the schedule for which stages are dealt in rounds.
const Interleaved = "interleaved"

// Deal gives each of n stages a device. Neighbours share one where there are fewer
// devices than stages, unless the schedule wants them apart.
func (p Pipeline) Deal(n int) []int {
	switch {
	case p.On != nil:
		return p.On
	case p.Order != nil && p.Order.Stages == n:
		return p.Order.Workers[:n]
	}
	devices := make([]int, n)
	for s := range devices {
		if devices[s] = s * min(n, p.Devices) / n; p.Name == Interleaved {
			devices[s] = s % p.Devices
		}
	}
	return devices
}

// Stages is the number of stages for all devices, of so many at most: as
// many as devices, or where the schedule goes round them, a multiple.
func (p Pipeline) Stages(most int) int {
	n := p.Devices
	if p.Name == Interleaved && n > 1 && most >= RoundsPerDevice*n {
		return RoundsPerDevice * n
	}
	return n
}

// Splits reports whether the schedule has W passes.
func (p Pipeline) Splits() bool {
	if p.Order != nil {
		return p.Order.Has(schedule.Weights)
	}
	return schedule.Splits(p.Name)
}

// Spec describes the named schedule of stages on these devices of the first replica.
func (p Pipeline) Spec(devices []int) schedule.Spec {
	return schedule.Spec{Name: cmp.Or(p.Name, Default), Stages: len(devices), Microbatches: p.Microbatches, Replicas: p.Replicas, Shares: p.Shares, Workers: p.workers(devices, max(1, p.Replicas))}
}

// workers are the devices of the stages of so many replicas, given those of the first.
func (p Pipeline) workers(devices []int, replicas int) (all []int) {
	for r := range replicas {
		for _, d := range devices {
			all = append(all, r*p.PerReplica()+d)
		}
	}
	return all
}

// InFlight is, by stage, the most microbatches at once whose activations the
// backward pass still needs.
func (p Pipeline) InFlight(devices []int) []int {
	count := p.Spec(devices).InFlight
	if p.Order != nil {
		count = func(last schedule.Kind) (n []int) {
			for stage := range devices {
				n = append(n, p.Order.InFlight(stage, last))
			}
			return n
		}
	}
	n := count(schedule.Backward)
	for stage, w := range count(schedule.Weights) {
		n[stage] = max(n[stage], w)
	}
	return n
}

// Schedule is the schedule of a step of that many microbatches, of stages on these
// devices of the first replica. Pins and lists of stages may put workers of the
// caller's order on one device, or a worker's stages on several.
func (p Pipeline) Schedule(devices []int, microbatches int) (schedule.Schedule, error) {
	if p.Order == nil {
		spec := p.Spec(devices)
		spec.Microbatches = microbatches
		return schedule.New(spec)
	}
	s := p.Order.Without(microbatches)
	return s.Deal(p.workers(devices, s.Replicas), p.PerReplica()*s.Replicas), nil
}
