package planning_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/partition"
	"github.com/berth-ml/berth/partition/nets"
	"github.com/berth-ml/berth/partition/planning"
)

// An evaluation runs on as many groups of devices as there can be: each has room for the whole
// model. Where no group but all devices has that, there are no groups.
func TestSmallestGroups(t *testing.T) {
	g, err := nets.Chain(4, 64, 8, 1).Build()
	if err != nil {
		t.Fatal(err)
	}
	p := plannerOf(t, 4, "{}", &clock{})
	p.Specs = nets.Specs(4, 1<<30)
	whole, groups, err := p.Answers(t.Context(), g, nil)
	if err != nil || groups != (planning.Groups{Count: 4, Size: 1}) || len(whole.Stages) != 1 {
		t.Fatalf("%+v, %v", groups, err)
	}
	peak := whole.Memory[0].Peak
	for _, x := range []struct {
		bytes int64
		want  planning.Groups
	}{
		{peak, planning.Groups{Count: 4, Size: 1}},
		{peak * 3 / 4, planning.Groups{Count: 2, Size: 2}},
		{peak * 2 / 5, planning.Groups{}},
	} {
		p.Specs = nets.Specs(4, x.bytes)
		plan, groups, err := p.Answers(t.Context(), g, nil)
		if err != nil || groups != x.want {
			t.Errorf("%d of %d bytes: %+v, want %+v; %v", x.bytes, peak, groups, x.want, err)
			continue
		}
		if list := groups.Devices(plan, p.Specs); len(list) != x.want.Count {
			t.Errorf("%d of %d bytes: groups %v", x.bytes, peak, list)
		}
		for i := range plan.Memory {
			if f := &plan.Memory[i]; groups.Count > 0 && f.Peak > x.bytes {
				t.Errorf("%d of %d bytes: device %d takes %d", x.bytes, peak, f.Device, f.Peak)
			}
		}
	}
	p.Specs = nets.Specs(4, 4096)
	if _, _, err := p.Answers(t.Context(), g, nil); !errors.Is(err, partition.ErrMemory) {
		t.Error(err)
	}
}

// With pins there are as many groups as the run has replicas, and each has the pinned op where the first one has it. A pin to a
// device that there is not gives way, and one of what only training has changes nothing.
func TestAnswersWithPins(t *testing.T) {
	n := nets.Chain(4, 64, 8, 1)
	g, err := n.Build()
	if err != nil {
		t.Fatal(err)
	}
	n.Dropout = true
	step := func() (*graph.Graph, error) { return n.Build() }
	for _, x := range []struct {
		keys     string
		replicas int
		groups   planning.Groups
		stages   string
		notes    int
	}{
		{"{stages: 1, pin: {b1.matmul: cpu:1}}", 1, planning.Groups{}, "b0|b1.matmul|b1:2 b2 b3", 0},
		{"{stages: 1, pin: {b1.matmul: cpu:1}}", 2, planning.Groups{Count: 2, Size: 2}, "b0|b1.matmul|b1:2 b2 b3", 0},
		{"{stages: 1, pin: {b1.matmul: cpu:1}}", 4, planning.Groups{Count: 2, Size: 2}, "b0|b1.matmul|b1:2 b2 b3", 0},
		{"{stages: 2, pin: {b3: cpu:0}}", 1, planning.Groups{}, "b0 b1|b2 b3", 0},
		{"{pin: {b1.dropout: cpu:1}}", 1, planning.Groups{Count: 4, Size: 1}, "b0 b1 b2 b3", 0},
		{"{pin: {b1: cpu:7, b3.matmul: cpu:7}}", 1, planning.Groups{Count: 4, Size: 1}, "b0 b1 b2 b3", 1},
	} {
		p := plannerOf(t, 4, x.keys, &clock{})
		p.Config.Partition.Replicas = x.replicas
		p.Specs, p.Answering = nets.Specs(4, 1<<30), true
		plan, groups, err := p.Answers(t.Context(), g, step)
		if err != nil {
			t.Errorf("%s: %v", x.keys, err)
			continue
		}
		if got := stagesOf(plan); groups != x.groups || got != x.stages {
			t.Errorf("%s: %+v, %s", x.keys, groups, got)
		}
		if notes := p.PinsGaveWay(); len(notes) != x.notes || x.notes == 1 && notes[0] != "partition.pin: cpu:7 is not there: b1, b3.matmul are placed anew" {
			t.Errorf("%s: %q", x.keys, notes)
		}
		for _, s := range plan.Stages {
			if want := p.Config.Partition.Pin[s.Blocks[len(s.Blocks)-1]]; x.notes == 0 && want != "" && string(p.Devices[s.Device].ID()) != want {
				t.Errorf("%s: %v are on device %d", x.keys, s.Blocks, s.Device)
			}
		}
	}
	var pin *partition.PinError
	p := plannerOf(t, 2, "{pin: {b1.mul: cpu:7}}", &clock{})
	p.Answering = true
	if _, _, err := p.Answers(t.Context(), g, step); !errors.As(err, &pin) || pin.Name != "b1.mul" || !strings.Contains(err.Error(), `"b1.mul" is pinned to cpu:7`) {
		t.Error(err)
	}
}
