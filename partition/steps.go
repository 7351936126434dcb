package partition

import (
	"slices"

	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/internal/stop"
)

// StepOptions describes a step of a plan.
type StepOptions struct {
	// Microbatches of the step, at least 1.
	Microbatches int
	// Tail is the plan of the last microbatch and of the update, made by Rebind.
	// Nil means that they are as in the plan.
	Tail *Plan
	// Fetch keeps the graph's outputs after the step.
	Fetch bool
}

// Instance is the instance of v for a microbatch. tail tells that p is a step's
// tail.
func (p *Plan) Instance(v *graph.Value, microbatch int, tail bool) Instance {
	return p.program().instance(v, microbatch, tail)
}

// Launches lists the launches of a step in the order in which they are queued:
// that of the schedule, then the update, level by level over all stages.
func (p *Plan) Launches(o StepOptions) ([]Launch, error) {
	return p.program().launches(stop.When(nil), o.inner())
}

// inner is the step of a program.
func (o StepOptions) inner() stepOptions {
	x := stepOptions{microbatches: o.Microbatches, fetch: o.Fetch}
	if o.Tail != nil {
		x.tail = o.Tail.program()
	}
	return x
}

// program is what the launches of the plan's steps follow from.
func (p *Plan) program() *program {
	return &program{idx: p.idx, segments: p.Segments, devices: p.cut.device, perReplica: p.options.perReplica(), bucket: p.Bucket, schedule: p.ScheduleOf}
}

// stepSizes lists the microbatches of a full step and, where there is one, of the
// smaller last step of an epoch.
func (p *Plan) stepSizes() []int {
	if last := p.options.LastMicrobatches; last > 0 && last < p.Microbatches {
		return []int{p.Microbatches, last}
	}
	return []int{p.Microbatches}
}

// forecaster forecasts the memory of the plan's steps.
func (p *Plan) forecaster() *forecaster {
	o := &p.options
	return newForecaster(p.program(), forecastOptions{specs: o.Devices, estimate: o.Estimate, checkFinite: o.checkFinite, sizes: p.stepSizes(), replicas: p.Replicas()})
}

// Predict simulates a step among others of a run. ask is called now and then; its error
// ends the simulation. Nil means never.
func (p *Plan) Predict(ask func() error) (*Prediction, error) {
	check := stop.When(ask)
	launches, err := p.program().launches(check, stepOptions{microbatches: p.Microbatches})
	if err != nil {
		return nil, err
	}
	var traces []*memoryTrace
	if slices.ContainsFunc(p.Memory, func(f Forecast) bool { return f.Moved() > 0 }) {
		if traces, err = p.forecaster().trace(launches, nil); err != nil {
			return nil, err
		}
	}
	return simulate(check, p.options.speeds(), launches, p.Memory, traces)
}

// busySeconds is, per device, the time for which it works in a step.
func (p *Plan) busySeconds() []float64 {
	launches, err := p.Launches(StepOptions{Microbatches: p.Microbatches})
	if err != nil {
		panic("BUG: a plan without launches: " + err.Error())
	}
	return busySeconds(p.options.speeds(), launches, p.Memory)
}
