package partition

import (
	"fmt"
	"strings"
	"testing"

	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/internal/golden"
	"github.com/berth-ml/berth/internal/units"
	"github.com/berth-ml/berth/partition/nets"
)

func TestGoldenPlans(t *testing.T) {
	byHand := PlanOptions{Devices: nets.Specs(3, 1<<20), Stages: [][]string{{"b0"}, {"b1"}, {"b2"}}}
	p := mustPlan(t, nets.Tied(2), byHand)
	golden.Check(t, "testdata/tied.txt", p.dump())
	golden.Check(t, "testdata/tied.dot", p.DOT())
	golden.Check(t, "testdata/tied_one_microbatch.txt", mustPlan(t, nets.Tied(1), byHand).dump())
	s := nets.Chain(7, 16, 8, 4)
	s.Adam, s.Stats, s.Dropout = true, true, true
	golden.Check(t, "testdata/chain.txt", mustPlan(t, s, PlanOptions{Devices: nets.Specs(2, 0), Count: 3}).Table())
}

// dump is the whole plan as text: stages, transfers, and every segment with
// its nodes and slots.
func (p *Plan) dump() string {
	var b strings.Builder
	b.WriteString(p.Table())
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

// slotText describes a slot beside its value: its identity, if that is another,
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
