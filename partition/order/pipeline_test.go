package order

import (
	"slices"
	"testing"
)

// Stages that share a device are neighbours, but for the schedule that goes round the devices.
func TestDeal(t *testing.T) {
	for _, c := range []struct {
		name            string
		stages, devices int
		want            []int
	}{
		{"1f1b", 3, 2, []int{0, 0, 1}}, {"1f1b", 4, 2, []int{0, 0, 1, 1}}, {"1f1b", 3, 3, []int{0, 1, 2}}, {"1f1b", 2, 4, []int{0, 1}},
		{"1f1b", 5, 3, []int{0, 0, 1, 1, 2}}, {Interleaved, 4, 2, []int{0, 1, 0, 1}}, {Interleaved, 3, 2, []int{0, 1, 0}},
	} {
		if got := (Pipeline{Name: c.name, Devices: c.devices}).Deal(c.stages); !slices.Equal(got, c.want) {
			t.Errorf("%s: %d stages on %d devices: %v, want %v", c.name, c.stages, c.devices, got, c.want)
		}
	}
}

// By default there are as many stages as devices; the schedule that goes round them has
// two rounds, if the model has as many blocks.
func TestStages(t *testing.T) {
	for _, c := range []struct {
		name       string
		most, want int
	}{{"1f1b", 8, 2}, {Interleaved, 8, 4}, {Interleaved, 3, 2}} {
		if got := (Pipeline{Name: c.name, Devices: 2}).Stages(c.most); got != c.want {
			t.Errorf("%s, at most %d stages: %d, want %d", c.name, c.most, got, c.want)
		}
	}
}

// A replica has the devices behind those of the replica before; devices left over have none.
func TestWorkers(t *testing.T) {
	p := Pipeline{Name: "1f1b", Microbatches: 4, Replicas: 2, Devices: 5}
	if got := p.workers([]int{0, 0, 1}, 2); !slices.Equal(got, []int{0, 0, 1, 2, 2, 3}) {
		t.Error(got)
	}
	s, err := p.Schedule([]int{0, 1}, 4)
	if err != nil || len(s.Workers) != 4 || s.Replicas != 2 {
		t.Error(s, err)
	}
}
