package partition

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/berth-ml/berth/partition/nets"
)

// candidatesOf plans a net of equal blocks.
func candidatesOf(t *testing.T, o PlanOptions) []Candidate {
	t.Helper()
	g, err := nets.Chain(4, 32, 8, o.Microbatches).Build()
	if err != nil {
		t.Fatal(err)
	}
	list, err := Candidates(g, o)
	if err != nil {
		t.Fatal(err)
	}
	return list
}

func TestCandidates(t *testing.T) {
	o := PlanOptions{Devices: nets.Specs(2, 0), Microbatches: 4}
	for d := range o.Devices {
		o.Devices[d].FlopsPerSecond = 1e6
	}
	texts := func(list []Candidate) (all []string) {
		for _, c := range list {
			all = append(all, fmt.Sprintf("%dx%d %s", c.Stages, c.Replicas, c.Schedule))
		}
		return all
	}
	list := candidatesOf(t, o)
	if got := strings.Join(texts(list), ", "); got != "1x1 1f1b, 2x1 1f1b, 2x1 gpipe, 2x1 zb-h1, 4x1 interleaved" {
		t.Error(got)
	}
	if best, err := Choose(list); err != nil || best.Stages != 2 {
		t.Errorf("%+v, %v", best, err)
	}
	o.Reduction = ReduceTree
	list = candidatesOf(t, o)
	if got := texts(list); got[len(got)-1] != "1x2 1f1b" {
		t.Error(got)
	}
	if best, err := Choose(list); err != nil || best.Replicas != 2 {
		t.Errorf("%d replicas, %v: two have no bubble", best.Replicas, err)
	}
	cells := make([]string, len(list))
	if text := CandidateTable("", cells, list, 0); strings.Count(text, "\n") != len(list)+1 {
		t.Error(text)
	}
}

// A second device that gains little is left out, and a plan that does not fit too.
func TestChooseFewDevices(t *testing.T) {
	o := PlanOptions{Devices: nets.Specs(2, 0), Microbatches: 1}
	o.Devices[0].FlopsPerSecond, o.Devices[1].FlopsPerSecond = 1e6, 1e3
	if best, err := Choose(candidatesOf(t, o)); err != nil || best.Stages != 1 || best.Plan.Stages[0].Device != 0 {
		t.Errorf("%+v, %v", best, err)
	}
	o.Devices[0].MemoryBytes, o.Devices[1].MemoryBytes = 1, 1
	list := candidatesOf(t, o)
	if _, err := Choose(list); !errors.Is(err, ErrMemory) {
		t.Error(err)
	}
	if text := CandidateTable("", make([]string, len(list)), list, 0); !strings.Contains(text, "does not fit") {
		t.Error(text)
	}
}
