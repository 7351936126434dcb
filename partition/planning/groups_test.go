package planning_test

import (
	"errors"
	"testing"

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
	whole, groups, err := p.Answers(t.Context(), g)
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
		plan, groups, err := p.Answers(t.Context(), g)
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
	if _, _, err := p.Answers(t.Context(), g); !errors.Is(err, partition.ErrMemory) {
		t.Error(err)
	}
}
