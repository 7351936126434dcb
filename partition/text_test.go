package partition

import (
	"testing"

	"github.com/berth-ml/berth/internal/golden"
)

func TestGoldenPlans(t *testing.T) {
	byHand := PlanOptions{Devices: specs(3, 1<<20), Stages: [][]string{{"b0"}, {"b1"}, {"b2"}}}
	p := mustPlan(t, tiedNet(2), byHand)
	golden.Check(t, "testdata/tied.txt", p.Dump())
	golden.Check(t, "testdata/tied.dot", p.DOT())
	golden.Check(t, "testdata/tied_one_microbatch.txt", mustPlan(t, tiedNet(1), byHand).Dump())
	s := chain(7, 16, 8, 4)
	s.adam, s.stats, s.dropout = true, true, true
	golden.Check(t, "testdata/chain.txt", mustPlan(t, s, PlanOptions{Devices: specs(2, 0), Count: 3}).Table())
}
