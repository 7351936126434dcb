package session_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/berth-ml/berth"
	"github.com/berth-ml/berth/configs"
	"github.com/berth-ml/berth/engine/device"
	"github.com/berth-ml/berth/executor/session"
	"github.com/berth-ml/berth/internal/runtest"
	"github.com/berth-ml/berth/partition"
)

// TestPercentage opens a run whose memory is limited by a percentage: the
// devices and the run's config have the bytes, and those bytes give the same
// limits again.
func TestPercentage(t *testing.T) {
	limits := func(devices string) []int64 {
		t.Helper()
		text := "data: digits\nmodel: {preset: mlp, hidden: [64, 32]}\ntrain: {microbatches: 4}\ndevices: " + devices + "\n"
		c, err := configs.Parse("test.yaml", []byte(text), configs.Overlay{})
		if err != nil {
			t.Fatal(err)
		}
		var all [2][]int64
		for i := range all {
			r, err := berth.Open(t.Context(), c, berth.OpenOptions{})
			if err != nil {
				t.Fatal(err)
			}
			for _, f := range r.Plan().Memory {
				all[i] = append(all[i], f.Peak, f.Limit)
			}
			c = r.Config
			if session.ByPercentage(c.Devices) {
				t.Errorf("the config still has %+v", c.Devices)
			}
			if err := r.Close(); err != nil {
				t.Error(err)
			}
		}
		if !slices.Equal(all[0], all[1]) {
			t.Errorf("%s: peaks and limits are %d, and %d from the run's config", devices, all[0], all[1])
		}
		return all[0]
	}
	if l := limits("{use: cpu, memory: 100%}"); l[0] != l[1] {
		t.Errorf("of a peak of %d, 100%% is %d", l[0], l[1])
	}
	l := limits("{use: cpu:2, memory: 150%}")
	if l[0] == l[2] || l[1] != (l[0]*3/2+63)/64*64 || l[3] != max(configs.LeastMemory, (l[2]*3/2+63)/64*64) {
		t.Errorf("peaks and limits of two devices: %d", l)
	}
}

// TestPercentageOfTheChosenPlan: where partition: auto chooses, a percentage is of the
// peaks of the plan that is chosen.
func TestPercentageOfTheChosenPlan(t *testing.T) {
	text := "data: digits\nmodel: {preset: mlp, hidden: [512, 256]}\ntrain: {microbatches: 4, reduction: tree}\npartition: auto\ndevices: {use: cpu:2, memory: 85%}\n"
	c, err := configs.Parse("test.yaml", []byte(text), configs.Overlay{})
	if err != nil {
		t.Fatal(err)
	}
	r, err := berth.Open(t.Context(), c, berth.OpenOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range r.Plan().Memory {
		if want := (configs.Memory{Percent: 85}).Of(f.Peak); f.Peak > 0 && f.Limit != want {
			t.Errorf("device %d: the limit is %d, and of the peak of %d it would be %d", f.Device, f.Limit, f.Peak, want)
		}
	}
	if err := r.Close(); err != nil {
		t.Error(err)
	}
}

// On some of the shared devices, a percentage is of what the plan takes on those.
func TestPercentageOnSomeOfTheSharedDevices(t *testing.T) {
	d := runtest.OpenDevices(t, "cpu:2", 8<<20)
	o := berth.OpenOptions{Devices: d, Use: []device.ID{"cpu:1"}}
	const text = "data: digits\nmodel: {preset: mlp, hidden: [512]}\ntrain: {epochs: 1, batch: 128}\n"
	c := runtest.Parsed(t, text, "devices.memory=80%")
	r, err := berth.Open(t.Context(), c, o)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if f := r.Plan().Memory[0]; f.Limit != (configs.Memory{Percent: 80}).Of(f.Peak) || len(r.Notes()) == 0 || !strings.HasPrefix(r.Notes()[0], "cpu:1 may use ") {
		t.Errorf("%d bytes of a peak of %d: %q", f.Limit, f.Peak, r.Notes())
	}
	dir := t.TempDir()
	runtest.Train(t, r, berth.TrainOptions{Dir: dir})
	c = runtest.Parsed(t, text, "devices.memory=1%")
	m, err := berth.OpenTrained(t.Context(), c, berth.Weights{Dir: dir}, berth.TrainedOptions{Devices: d, Use: o.Use})
	if small, ok := errors.AsType[*partition.MemoryError](err); !ok || small.ID != "cpu:1" || small.Limit != configs.LeastMemory || m != nil {
		t.Errorf("%v", err)
	}
}
