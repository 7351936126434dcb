package partition

import (
	"fmt"
	"slices"

	"github.com/berth-ml/berth/engine/paging"
	"github.com/berth-ml/berth/executor/schedule"
)

// Shares are the microbatches of a full step that each replica takes.
func (p *Plan) Shares() ([]int, error) {
	s, err := p.ScheduleOf(p.Microbatches)
	if err != nil {
		return nil, err
	}
	shares := make([]int, p.Replicas())
	for _, row := range s.Rows {
		for _, a := range row {
			if a.Kind == schedule.Forward && a.Stage == 0 {
				shares[a.Replica]++
			}
		}
	}
	return shares, nil
}

// Shareable reports whether replicas of the plan can take other shares of a step's microbatches: with the
// same bits, in one process, in the order of a named schedule, and with more microbatches than replicas.
func (p *Plan) Shareable() bool {
	o := &p.options
	return o.Replicas > 1 && o.Ranks == nil && o.Order == nil && p.Microbatches > o.Replicas && p.goesBack() && o.otherBits() < 0
}

// Share is the plan with other shares, each at least 1: the same segments, launched on other replicas. Its
// Memory, if the plan has any, is that of its steps, with the constants of all microbatches on each device:
// other shares may have left them there. Nothing is cut finer where that is more than a device has.
func (p *Plan) Share(shares []int) (*Plan, error) {
	q := *p
	q.options.Shares = slices.Clone(shares)
	switch s, err := q.Shares(); {
	case err != nil:
		return nil, err
	case !p.Shareable() || !slices.Equal(s, shares):
		return nil, replicasError(fmt.Sprintf("%d microbatches cannot be shared as %v", p.Microbatches, shares))
	case len(p.Memory) == 0:
		return &q, nil
	}
	r, err := q.forecaster().Forecast(false, nil)
	if err != nil {
		return nil, err
	}
	q.Memory = r.Memory
	q.keepUsed()
	for i := range q.Memory {
		q.addConstants(&q.Memory[i])
	}
	return &q, nil
}

// addConstants adds the constants of all microbatches to a peak.
func (p *Plan) addConstants(f *Forecast) {
	for _, v := range p.Graph.Inputs {
		if v.PerMicrobatch {
			bytes := int64(p.Microbatches) * paging.Rounded(v.Meta.Bytes())
			f.Peak += bytes
			f.PeakBy[p.Usage(v)] += bytes
		}
	}
}

// ReplicaOf is the replica that has a device of the plan.
func (p *Plan) ReplicaOf(device int) int { return device / p.options.pipeline().PerReplica() }
