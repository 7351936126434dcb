package partition

import (
	"errors"
	"strings"
	"testing"

	"github.com/berth-ml/berth/partition/nets"
)

func TestByHandErrors(t *testing.T) {
	g, err := nets.Chain(3, 4, 2, 1).Build()
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		stages [][]string
		want   []string
	}{
		{[][]string{{"b0", "b1", "c2"}}, []string{`"c2"`, `nearest: "b2"`, "b0, b1, b2"}},
		{[][]string{{"b0"}, {"b2"}}, []string{"no stage names b1"}},
		{[][]string{{"b0", "b1"}, {"b1", "b2"}}, []string{`"b1" is in stage 0 and again in stage 1`}},
		{[][]string{{"b0", "b1", "b2"}, {}}, []string{"stage 1 has no blocks"}},
		{[][]string{}, []string{"empty"}},
		{[][]string{{"b1", "b2"}, {"b0"}}, []string{`layer 0 (dense "b0") of stage 1`, `layer 1 (dense "b1") of stage 0`}},
	} {
		_, err := New(g, PlanOptions{Devices: nets.Specs(2, 0), Stages: c.stages})
		if !errors.Is(err, ErrStages) {
			t.Errorf("%v: %v", c.stages, err)
			continue
		}
		for _, w := range c.want {
			if !strings.Contains(err.Error(), w) {
				t.Errorf("%v: %v\nlacks %q", c.stages, err, w)
			}
		}
	}
	for _, o := range []PlanOptions{{}, {Devices: nets.Specs(1, 0), Count: -1}, {Devices: nets.Specs(1, 0), Count: 2, Stages: [][]string{{"b0"}}}} {
		if _, err := New(g, o); !errors.Is(err, ErrStages) {
			t.Errorf("%+v: %v", o, err)
		}
	}
}
