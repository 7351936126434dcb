package passes

import (
	"slices"

	"pgregory.net/rapid"

	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/executor/schedule"
	"github.com/berth-ml/berth/internal/stop"
	"github.com/berth-ml/berth/partition/divide"
	"github.com/berth-ml/berth/partition/nets"
	"github.com/berth-ml/berth/partition/nodes"
	"github.com/berth-ml/berth/partition/order"
	"github.com/berth-ml/berth/partition/place"
	"github.com/berth-ml/berth/partition/segment"
	"github.com/berth-ml/berth/partition/step"
)

// T is a *testing.T or a *rapid.T.
type T interface {
	Helper()
	Fatal(args ...any)
}

// Setup stands for what a plan's options and its cut decide before the passes that a test is
// about. Its test owns it. The zero value is one stage of all blocks on one device.
type Setup struct {
	Begins   []int              // the first block of each stage; nil: one stage
	Devices  int                // of all replicas; 0: one for each stage of each replica
	Replicas int                // 0 means 1; more need Tree
	Schedule string             // "" means 1f1b
	Order    *schedule.Schedule // in place of a named one
	Tree     bool               // microbatches are summed by a tree
	Apart    bool               // phases are not merged
	Shard    bool               // replicas divide the update among them
	Unit     int                // ranges of replicas begin at multiples of so many elements; 0: as in a plan
	Grain    segment.Grain
}

// EachBlock is a setup with one stage for each of so many blocks.
func EachBlock(blocks int) Setup {
	var s Setup
	for i := range blocks {
		s.Begins = append(s.Begins, i)
	}
	return s
}

// Draw makes a random setup for a net.
func Draw(t *rapid.T, n nets.Net) Setup {
	s := Setup{Begins: []int{0}}
	for i := 1; i < len(n.Blocks); i++ {
		if rapid.Bool().Draw(t, "a stage begins") {
			s.Begins = append(s.Begins, i)
		}
	}
	s.Devices = rapid.IntRange(1, 4).Draw(t, "devices")
	s.Schedule = rapid.SampledFrom([]string{"", "1f1b", "gpipe", "zb-h1", order.Interleaved}).Draw(t, "schedule")
	s.Apart = rapid.Bool().Draw(t, "apart")
	s.Grain = segment.Grain(rapid.IntRange(0, segment.Grains-1).Draw(t, "grain"))
	if s.Tree = rapid.Bool().Draw(t, "tree"); s.Tree {
		s.Replicas = rapid.IntRange(1, min(s.Devices, n.Microbatches)).Draw(t, "replicas")
		s.Shard = rapid.Bool().Draw(t, "shard")
		s.Unit = rapid.IntRange(0, 3).Draw(t, "unit")
	}
	return s
}

// replicas is their number, at least 1.
func (s Setup) replicas() int { return max(1, s.Replicas) }

// stages is their number, at least 1.
func (s Setup) stages() int { return max(1, len(s.Begins)) }

// Count is the number of devices.
func (s Setup) Count() int {
	if s.Devices > 0 {
		return s.Devices
	}
	return s.stages() * s.replicas()
}

// Pipeline is the setup's pipeline for steps of so many microbatches.
func (s Setup) Pipeline(microbatches int) order.Pipeline {
	return order.Pipeline{Name: s.Schedule, Order: s.Order, Microbatches: microbatches, Replicas: s.Replicas, Devices: s.Count()}
}

// On is the device of each stage of the first replica.
func (s Setup) On() []int {
	p := s.Pipeline(1)
	p.Devices = p.PerReplica()
	return p.Deal(s.stages())
}

// Index runs pass 1.
func (s Setup) Index(t T, g *graph.Graph, microbatches int) *nodes.Index {
	t.Helper()
	idx, err := nodes.New(g, nodes.Options{Microbatches: microbatches, Tree: s.Tree, Apart: s.Apart, Splits: s.Pipeline(microbatches).Splits()}, stop.When(nil))
	if err != nil {
		t.Fatal(err)
	}
	return idx
}

// Groups is the stage of each block, as pass 2 gives it.
func (s Setup) Groups(blocks []string) map[string]int {
	of, stage := map[string]int{}, -1
	for i, b := range blocks {
		if i == 0 || slices.Contains(s.Begins, i) {
			stage++
		}
		of[b] = stage
	}
	return of
}

// Place runs pass 3, and where replicas share the update pass 4, which may change the graph.
func (s Setup) Place(t T, idx *nodes.Index) (*nodes.Index, *place.Placement) {
	t.Helper()
	pl := place.Nodes(idx, s.stages(), s.Groups(nodes.Blocks(idx.Graph)))
	if !s.Shard || s.replicas() == 1 {
		return idx, pl
	}
	shards := divide.ShardsOf(idx, pl, s.replicas(), s.Unit)
	pl.Shared = divide.Share(idx, shards)
	x := divide.Updates(idx, divide.Ranges{}, shards)
	if x == nil {
		return idx, pl
	}
	return s.Index(t, x.Graph, idx.Microbatches), divide.Place(pl, x)
}

// Segments runs pass 5.
func (s Setup) Segments(t T, idx *nodes.Index, pl *place.Placement) []segment.Segment {
	t.Helper()
	list, err := segment.Make(segment.NewGroups(idx, pl), s.Grain, s.replicas())
	if err != nil {
		t.Fatal(err)
	}
	return list
}

// Build makes a net's graph.
func Build(t T, n nets.Net) *graph.Graph {
	t.Helper()
	g, err := n.Build()
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// Program runs the passes before pass 6 on a net.
func (s Setup) Program(t T, n nets.Net) *step.Program {
	t.Helper()
	return s.ProgramOf(t, Build(t, n), n.Microbatches)
}

// ProgramOf is Program of a graph for steps of so many microbatches.
func (s Setup) ProgramOf(t T, g *graph.Graph, microbatches int) *step.Program {
	t.Helper()
	idx, pl := s.Place(t, s.Index(t, g, microbatches))
	p := &step.Program{Index: idx, Segments: s.Segments(t, idx, pl), Devices: s.On(), PerReplica: s.Pipeline(microbatches).PerReplica()}
	p.Schedule = func(m int) (schedule.Schedule, error) {
		line := s.Pipeline(microbatches)
		if !slices.ContainsFunc(idx.Graph.Nodes, func(n *graph.Node) bool { return n.Phase == graph.Backward }) {
			line.Name, line.Order = "forward", nil
		}
		x, err := line.Schedule(p.Devices, m)
		if !s.Shard {
			x = x.FirstUpdates()
		}
		return x, err
	}
	return p
}

// Launches runs pass 6.
func Launches(t T, p *step.Program, o step.Options) []step.Launch {
	t.Helper()
	list, err := p.Launches(stop.When(nil), o)
	if err != nil {
		t.Fatal(err)
	}
	return list
}
