package cut

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/berth-ml/berth/partition/nets"
	"github.com/berth-ml/berth/partition/place"
)

func TestByHandErrors(t *testing.T) {
	g, err := nets.Chain(3, 4, 2, 1).Build()
	if err != nil {
		t.Fatal(err)
	}
	for _, x := range []struct {
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
		idx, c, err := choose(t, g, 1, Options{Devices: nets.Specs(2, 0), Stages: x.stages})
		if err == nil {
			err = CheckEdges(idx, place.Nodes(idx, len(c.Device), c.Groups()))
		}
		if !errors.Is(err, ErrStages) {
			t.Errorf("%v: %v", x.stages, err)
			continue
		}
		for _, w := range x.want {
			if !strings.Contains(err.Error(), w) {
				t.Errorf("%v: %v\nlacks %q", x.stages, err, w)
			}
		}
	}
}

// Pinned blocks are where they are pinned, however the stages are found.
func TestPinnedBlocks(t *testing.T) {
	for name, o := range map[string]Options{
		"the last on the first":  {Pin: map[string]int{"b5": 0}},
		"both ends on one":       {Pin: map[string]int{"b0": 1, "b5": 1}},
		"all on one":             {Pin: map[string]int{"b0": 1, "b2": 1, "b3": 1, "b5": 1}},
		"three stages":           {Pin: map[string]int{"b0": 1, "b5": 1}, Count: 3},
		"stages that are listed": {Pin: map[string]int{"b4": 0}, Stages: [][]string{{"b0", "b1"}, {"b2", "b3", "b4", "b5"}}},
	} {
		o.Devices = nets.Specs(2, 0)
		c := mustChoose(t, nets.Chain(6, 8, 4, 2), o)
		for i, b := range c.Blocks {
			if d, pinned := o.Pin[b]; pinned && c.Device[c.StageOf[i]] != d {
				t.Errorf("%s: %s is on device %d, want %d", name, b, c.Device[c.StageOf[i]], d)
			}
		}
		if !strings.Contains(strings.Join(c.Cause, " "), "pinned here") {
			t.Errorf("%s: no cause says so: %s", name, c.Cause)
		}
	}
}

func TestPinsThatCannotBe(t *testing.T) {
	for want, o := range map[string]Options{
		`"b9" is pinned to cpu:0`:                                    {Pin: map[string]int{"b9": 0}},
		"cannot be cut so that each pinned block":                    {Pin: map[string]int{"b0": 0, "b1": 1, "b2": 0}, Count: 2},
		`stage 0 has block "b0", which is pinned to cpu:0, and "b1"`: {Pin: map[string]int{"b0": 0, "b1": 1}, Stages: [][]string{{"b0", "b1"}, {"b2"}}},
	} {
		o.Devices = nets.Specs(2, 0)
		g, err := nets.Chain(3, 4, 2, 1).Build()
		if err != nil {
			t.Fatal(err)
		}
		if _, _, err := choose(t, g, 1, o); !errors.Is(err, ErrStages) || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
}

// A stage by hand, or a pin, on a device that does not run the block is refused by name.
func TestUnsupportedByHand(t *testing.T) {
	for _, o := range []Options{{Stages: [][]string{{"b0"}, {"b1"}}}, {Pin: map[string]int{"b1": 1}}} {
		o.Devices, o.Supports = nets.Specs(2, 0), refuseBlocks("b1")
		g, err := nets.Chain(2, 4, 2, 1).Build()
		if err != nil {
			t.Fatal(err)
		}
		if _, _, err = choose(t, g, 1, o); !errors.Is(err, ErrStages) || !strings.Contains(fmt.Sprint(err), "b1") || !strings.Contains(fmt.Sprint(err), "no kernel") {
			t.Errorf("stages %v, pins %v: %v", o.Stages, o.Pin, err)
		}
	}
}
