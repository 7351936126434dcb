package partition

import (
	"fmt"
	"strings"
	"testing"

	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/internal/golden"
	"github.com/berth-ml/berth/internal/units"
	"github.com/berth-ml/berth/partition/nets"
	"github.com/berth-ml/berth/partition/nodes"
)

func TestGoldenPlans(t *testing.T) {
	byHand := PlanOptions{Devices: nets.Specs(3, 1<<20), Stages: [][]string{{"b0"}, {"b1"}, {"b2"}}}
	p := mustPlan(t, nets.Tied(2), byHand)
	golden.Check(t, "testdata/tied.txt", p.dump())
	golden.Check(t, "testdata/tied.dot", p.DOT())
	golden.Check(t, "testdata/tied_one_microbatch.txt", mustPlan(t, nets.Tied(1), byHand).dump())
	s := nets.Chain(7, 16, 8, 4)
	s.Adam, s.Stats, s.Dropout = true, true, true
	golden.Check(t, "testdata/chain.txt", mustPlan(t, s, PlanOptions{Devices: nets.Specs(2, 0), Count: 3}).Table(0))
}

// dump is the whole plan as text: stages, transfers, and every segment with
// its nodes and slots.
func (p *Plan) dump() string {
	var b strings.Builder
	b.WriteString(p.Table(0))
	b.WriteString("\ntransfers\n")
	for _, t := range p.Transfers {
		how := ""
		if t.Local {
			how = ", same device"
		}
		fmt.Fprintf(&b, "  %s: stage %d to %d, %s per %v%s\n", t.Value.Name, t.From, t.To, units.Bytes(t.Bytes), t.Rate, how)
	}
	for i := range p.Segments {
		p.dumpSegment(&b, &p.Segments[i])
	}
	return b.String()
}

func (p *Plan) dumpSegment(b *strings.Builder, s *Segment) {
	fmt.Fprintf(b, "\nsegment %d %s on %s\n", s.ID, s.Name, p.devicesText(s.Stage))
	dumpVariant(b, "", &s.First)
	if s.Later.Graph != s.First.Graph {
		dumpVariant(b, "later ", &s.Later)
	}
	if s.Reduce.Graph != nil {
		dumpVariant(b, "reduce ", &s.Reduce)
	}
	for r := range s.ReduceOn {
		if s.ReduceOn[r].Graph != nil {
			dumpVariant(b, fmt.Sprintf("reduce on replica %d ", r), &s.ReduceOn[r])
		}
	}
	if s.Split.Graph != nil {
		dumpVariant(b, "split ", &s.Split)
	}
}

func dumpVariant(b *strings.Builder, label string, v *Variant) {
	for i, in := range v.In {
		fmt.Fprintf(b, "  %sin  %v%s\n", label, v.Graph.Inputs[i], slotText(v.Graph.Inputs[i], in))
	}
	for _, n := range v.Graph.Nodes {
		fmt.Fprintf(b, "    %d: %v\n", n.ID, n)
	}
	for i, o := range v.Out {
		alias := ""
		if v.Alias[i] >= 0 {
			alias = fmt.Sprintf(" in place of input %d", v.Alias[i])
		}
		fmt.Fprintf(b, "  %sout %v%s%s\n", label, v.Graph.Outputs[i], slotText(v.Graph.Outputs[i], o), alias)
	}
}

// slotText describes a slot apart from its value: its identity, if that is another,
// and its mode.
func slotText(v *graph.Value, s Slot) string {
	text := ""
	if s.Value != v {
		text = " as " + s.Value.Name
	}
	if s.Mode == ReadWrite {
		text += " read-write"
	}
	return text
}

// More words than fit a column are summed up by word.
func TestPassesText(t *testing.T) {
	var segments []*Segment
	for i := range 2 * mostWords {
		for _, p := range []Passes{1, 2 + 16}[:1+i%2] {
			segments = append(segments, &Segment{Passes: p})
		}
	}
	if got := passesText(segments[:mostWords]); strings.Contains(got, "×") {
		t.Errorf("few segments: %s", got)
	}
	if got := passesText(segments); got != "F×32 BU×16" {
		t.Errorf("many segments: %s", got)
	}
}

// The plan says which blocks a device does not run. A number of the update that the device of its readers cannot compute is
// computed on another one, with what it assigns, and that one's stage says why.
func TestUnsupportedUpdatesAreElsewhere(t *testing.T) {
	devices := nets.Specs(2, 0)
	devices[1].Kind, devices[1].ID = "other", "other:0"
	n := nets.Chain(2, 4, 2, 1)
	n.Clip = true
	without := PlanOptions{Devices: devices, Supports: onlyRuns(func(d int, n *graph.Node) bool { return d == 1 && nodes.BlockOf(n.Layer) == "b0" })}
	if lines := mustPlan(t, n, without).Elsewhere(); len(lines) != 1 || !strings.Contains(lines[0], "other:0 does not run b0") {
		t.Errorf("the plan says %q", lines)
	}
	for refusing := range 2 {
		o := PlanOptions{Devices: devices, Stages: [][]string{{"b0"}, {"b1"}}}
		o.Supports = onlyRuns(func(d int, n *graph.Node) bool {
			return d == refusing && n.Phase == graph.Update && nodes.Scalars(n.Out)
		})
		p, count := mustPlan(t, n, o), 0
		for _, x := range p.Graph.Nodes {
			if p.index.Movable(x) && nodes.Scalars(x.Out) {
				count++
				if s := p.place.Node[x.ID]; s == refusing {
					t.Errorf("%v is on stage %d", x, s)
				}
			}
		}
		if got := p.Stages[1-refusing].Cause; count == 0 || len(p.Elsewhere()) == 0 || !strings.Contains(got, fmt.Sprintf("which %s does not run", devices[refusing].ID)) {
			t.Errorf("%d nodes, %q, refused by %s: %s", count, p.Elsewhere(), devices[refusing].ID, got)
		}
	}
}
