package session

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/berth-ml/berth/engine/ops"
	"github.com/berth-ml/berth/internal/stop"
	"github.com/berth-ml/berth/partition"
)

// Passing lists the values of a step that pass through the host on their way between
// devices of different kinds.
func (s *Session) Passing(ctx context.Context) (values []string, err error) {
	specs, used := s.Planner.Specs, s.Plan.Devices()
	lacksPath := func(d int) bool { return specs[d].Kind != specs[used[0]].Kind || !specs[d].PeerCopy }
	if len(used) == 1 || !slices.ContainsFunc(used, lacksPath) {
		return nil, nil
	}
	step, err := s.Plan.Predict(stop.Of(ctx))
	if err != nil {
		return nil, err
	}
	for _, c := range step.Copies {
		if name := c.Value.Whole().Name; c.Hosted && !slices.Contains(values, name) {
			values = append(values, name)
		}
	}
	return values, nil
}

// numerics names the kernels of the devices that have stages: results depend on
// them to the bit, as on config and data. Where the kernels differ, results depend on
// the blocks of each, too: "cpu avx512 for layers.0 and opencl float32 for layers.1".
func (s *Session) numerics() string {
	blocks := map[string][]string{} // by kernels
	for i := range s.Plan.Stages {
		for r, d := range s.Plan.DevicesOf(i) {
			spec := s.Devices[d].Spec()
			name := strings.TrimSpace(spec.Kind + " " + spec.Numerics)
			blocks[name] = append(blocks[name], blocksOf(&s.Plan.Stages[i], r))
		}
	}
	all := slices.Sorted(maps.Keys(blocks))
	if len(all) > 1 {
		for i, name := range all {
			all[i] = name + " for " + strings.Join(blocks[name], ", ")
		}
	}
	text := strings.Join(all, " and ")
	if kinds := s.rounded(); len(kinds) > 0 {
		text += ", rounding in " + strings.Join(kinds, ", ")
	}
	return text
}

// rounded lists the kinds of ops that round to bfloat16 what they multiply, but products of matrices: `precision: bf16` has
// always meant those, and the others only later.
func (s *Session) rounded() (kinds []string) {
	for _, n := range s.Plan.Graph.Nodes {
		rounds := false
		switch op := n.Op.(type) {
		case ops.Conv2D:
			rounds = op.BF16
		case ops.Attention:
			rounds = op.BF16
		}
		if rounds {
			kinds = append(kinds, n.Op.Kind())
		}
	}
	slices.Sort(kinds)
	return slices.Compact(kinds)
}

// blocksOf names the blocks of a stage's replica: "block0 to block5", "head@1".
func blocksOf(s *partition.Stage, replica int) string {
	if len(s.Blocks) == 0 {
		return "all"
	}
	text := s.Blocks[0]
	if n := len(s.Blocks); n > 1 {
		text += " to " + s.Blocks[n-1]
	}
	if replica > 0 {
		text += fmt.Sprintf("@%d", replica)
	}
	return text
}
