package segment

import (
	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/executor/schedule"
	"github.com/berth-ml/berth/internal/stop"
	"github.com/berth-ml/berth/partition/nodes"
	"github.com/berth-ml/berth/partition/place"
)

// Rate is how often something moves.
type Rate uint8

// The rates.
const (
	PerMicrobatch Rate = iota
	PerStep
	PerRun
)

var rateNames = [...]string{"microbatch", "step", "run"}

// String is the period: "microbatch".
func (r Rate) String() string { return rateNames[r] }

// Transfer is a value that one stage makes or owns and another reads. On
// stages that share a device nothing moves.
type Transfer struct {
	Value    *graph.Value
	From, To int // stages
	Bytes    int64
	Rate     Rate
	Local    bool // both stages are on one device
}

// Transfers lists the values that one stage reads of another, once per value
// and reading stage, in plan order.
func Transfers(idx *nodes.Index, pl *place.Placement, segments []Segment, devices []int) []Transfer {
	type key struct {
		v  *graph.Value
		to int
	}
	seen := map[key]bool{}
	var ts []Transfer
	for _, s := range segments {
		for i, in := range stop.Each(idx.Stop, s.First.In) {
			v := s.First.Graph.Inputs[i]
			from, ok := source(idx, pl, v)
			if !ok || from == s.Stage || seen[key{in.Value, s.Stage}] {
				continue
			}
			seen[key{in.Value, s.Stage}] = true
			t := Transfer{Value: in.Value, From: from, To: s.Stage, Bytes: v.Meta.Bytes(), Rate: PerStep, Local: devices[from] == devices[s.Stage]}
			switch {
			case nodes.PerMicrobatch(v) && s.Pass != schedule.Update:
				t.Rate = PerMicrobatch
			case v.Kind == graph.Variable && idx.Assigned[v.ID] == nil:
				t.Rate = PerRun
			}
			ts = append(ts, t)
		}
	}
	return ts
}

// source is the stage that makes or owns v; ok is false for inputs.
func source(idx *nodes.Index, pl *place.Placement, v *graph.Value) (stage int, ok bool) {
	if part := idx.Part[v.ID]; part != nil {
		v = part
	}
	switch v.Kind {
	case graph.Computed:
		return pl.Node[v.Node.ID], true
	case graph.Variable:
		return pl.Owner[v.Name], true
	}
	return 0, false
}
