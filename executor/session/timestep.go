package session

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/berth-ml/berth/engine/device"
	"github.com/berth-ml/berth/internal/units"
	"github.com/berth-ml/berth/partition"
	"github.com/berth-ml/berth/partition/costs"
)

// StepTiming says how the steps of a session's plans were timed.
type StepTiming struct {
	Took    time.Duration // of all that the session has measured; 0 where every time was known
	Untimed string        // why a plan was not timed, for people; "" if nobody needs to know
}

// The most that steps are timed for. What takes more is predicted by arithmetic.
const (
	mostRound      = time.Second // of running each segment of a plan once, by arithmetic
	mostNodes      = 20000       // in the segments of a plan: they must be compiled
	mostOfTheHost  = 2           // the share of the host's free memory that segments may take is 1/mostOfTheHost
	byItselfToTime = "to time it all the same, set partition.costs to measured"
)

// TimeSteps times what steps of plans consist of, so that [partition.Plan.Predict] counts with measured times. Plans that
// would take long to time, or much memory, keep their times by arithmetic. Nothing is timed on shared devices, where others
// work. All ranks call it.
func (s *Session) TimeSteps(ctx context.Context, plans ...*partition.Plan) (t StepTiming, err error) {
	if s.Shared() || slices.ContainsFunc(s.Planner.Specs, func(d device.Spec) bool { return !d.CopyOut }) {
		return t, nil
	}
	for _, p := range plans {
		why, err := s.untimed(p)
		if err == nil && why == "" {
			err = s.Planner.Times.Measure(ctx, s.Planner.Devices, p, false, s.Config.Devices.IsOpByOp())
		}
		if err != nil {
			return t, err
		}
		if why != "" {
			t.Untimed = "the step is not timed: " + why + "; " + byItselfToTime
		}
	}
	t.Took = s.Times.Took()
	return t, nil
}

// untimed says why a plan is not timed; "" if it is. Ranks all answer alike.
func (s *Session) untimed(p *partition.Plan) (why string, err error) {
	launches, err := p.LaunchesOnce()
	if err != nil {
		return "", err
	}
	nodes, seen := 0, map[*partition.Variant]bool{}
	for i := range launches {
		if v := launches[i].Variant; !seen[v] {
			seen[v] = true
			nodes += len(v.Graph.Nodes)
		}
	}
	if nodes > mostNodes {
		return fmt.Sprintf("its segments have %s ops, which take long to compile", units.Thousands(nodes)), nil
	}
	bytes, seconds := int64(0), 0.0
	here := len(s.Devices) / max(1, s.held.asRanks) // others are like these, which stand for them
	for i := range p.Memory {
		f := &p.Memory[i]
		if f.Device >= here {
			continue
		}
		seconds = max(seconds, f.Seconds/float64(p.Microbatches))
		need := f.Peak
		if f.Tight() {
			need = f.Limit
		}
		bytes += need
	}
	if seconds > mostRound.Seconds() {
		return "a microbatch takes about " + units.Seconds(seconds), nil
	}
	if s.held.crew != nil {
		return "", nil // each has other memory
	}
	free, err := s.available()
	if err == nil && bytes > free/mostOfTheHost {
		return fmt.Sprintf("it takes %s, and the host has %s free", units.Bytes(bytes), units.Bytes(free)), nil
	}
	return "", nil
}

// kindOfRun is the kind of the plan's runs.
func (s *Session) kindOfRun() string {
	return costs.RunKind(s.Planner.Specs, len(s.Plan.Stages), s.Plan.Replicas(), s.Plan.AnyTight(), s.Config.Devices.IsOpByOp())
}

// leastSteps is the number of steps from which on a run tells how good its prediction was.
const leastSteps = 20

// KeepRun keeps the median time of a run's steps, for [Session.Within], where all of its prediction was measured.
func (s *Session) KeepRun(ctx context.Context, p *partition.Prediction, steps int, seconds float64) {
	if steps < leastSteps || p.Count == 0 || p.Measured < p.Count || s.Shared() || s.of != nil {
		return
	}
	s.Times.AddRun(ctx, s.kindOfRun(), seconds/p.Seconds)
}

// Within says how long steps took in runs like this on this machine, where their prediction was as this one; "" if there were too
// few, or the prediction is not measured.
func (s *Session) Within(p *partition.Prediction) string {
	f := s.Times.Kept()
	if f == nil || p.Measured < p.Count {
		return ""
	}
	ratios := f.Runs(s.kindOfRun())
	low, high, in, few := costs.Interval(ratios)
	if few {
		return ""
	}
	return fmt.Sprintf("%s to %s in %d of %d runs like this on this machine", units.Seconds(low*p.Seconds), units.Seconds(high*p.Seconds), in, len(ratios))
}
