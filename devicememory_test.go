package berth

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/berth-ml/berth/configs"
	"github.com/berth-ml/berth/engine/device"
)

// TestLimited turns percentages of the devices' peaks into bytes.
func TestLimited(t *testing.T) {
	const mib = 1 << 20
	percent, bytes := func(p float64) configs.Memory { return configs.Memory{Percent: p} }, func(n int64) configs.Memory { return configs.Memory{Bytes: n} }
	for _, c := range []struct {
		asked configs.Devices
		peaks []int64
		want  configs.Devices
		notes int
	}{
		{configs.Devices{Use: "cpu", Memory: percent(50)}, []int64{2*mib + 1}, configs.Devices{Use: "cpu", Memory: bytes(mib + 64)}, 1},
		{configs.Devices{Use: "cpu", Memory: percent(50)}, []int64{100}, configs.Devices{Use: "cpu", Memory: bytes(configs.LeastMemory)}, 1},
		{configs.Devices{Use: "cpu:2", Threads: 3, Memory: percent(100)}, []int64{mib, mib}, configs.Devices{Use: "cpu:2", Threads: 3, Memory: bytes(mib)}, 2},
		{configs.Devices{Use: "cpu:2", Threads: 3, Memory: percent(100)}, []int64{mib, 2 * mib},
			configs.Devices{Each: []configs.DeviceEntry{{Use: "cpu", Threads: 2, Memory: bytes(mib)}, {Use: "cpu", Threads: 1, Memory: bytes(2 * mib)}}}, 2},
		{configs.Devices{Use: "cpu:2,null", Memory: percent(50)}, []int64{mib, 2 * mib, mib},
			configs.Devices{Each: []configs.DeviceEntry{{Use: "cpu", Memory: bytes(mib / 2)}, {Use: "cpu", Memory: bytes(mib)}, {Use: "null", Memory: bytes(mib / 2)}}}, 3},
		{configs.Devices{Each: []configs.DeviceEntry{{Use: "cpu:2", Threads: 2, Memory: percent(50)}, {Use: "cpu", Memory: bytes(mib)}}}, []int64{mib, mib, mib},
			configs.Devices{Each: []configs.DeviceEntry{{Use: "cpu", Threads: 1, Memory: bytes(mib / 2)}, {Use: "cpu", Threads: 1, Memory: bytes(mib / 2)}, {Use: "cpu", Memory: bytes(mib)}}}, 2},
		{configs.Devices{Use: "cpu:2", Memory: percent(50), Timeout: time.Second, HostMemory: mib, SpillDir: "d"}, []int64{mib, 2 * mib},
			configs.Devices{Each: []configs.DeviceEntry{{Use: "cpu", Memory: bytes(mib / 2)}, {Use: "cpu", Memory: bytes(mib)}}, Timeout: time.Second, HostMemory: mib, SpillDir: "d"}, 2},
	} {
		got, notes, err := limited(c.asked, make([]device.Spec, len(c.peaks)), c.peaks)
		if err != nil || !reflect.DeepEqual(got, c.want) || len(notes) != c.notes {
			t.Errorf("%+v with peaks of %d:\n%+v, %q, %v, expected\n%+v and %d notes", c.asked, c.peaks, got, notes, err, c.want, c.notes)
		}
	}
}

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
			r, err := Open(context.Background(), c, OpenOptions{})
			if err != nil {
				t.Fatal(err)
			}
			for _, f := range r.Plan.Memory {
				all[i] = append(all[i], f.Peak, f.Limit)
			}
			c = r.Config
			if byPercentage(c.Devices) || r.setup.config != c {
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

// Where nobody limits the memory of devices, no line is to blame that the process has
// TestPercentageOfTheChosenPlan: where partition: auto chooses, a percentage is of the
// peaks of the plan that is chosen.
func TestPercentageOfTheChosenPlan(t *testing.T) {
	text := "data: digits\nmodel: {preset: mlp, hidden: [512, 256]}\ntrain: {microbatches: 4, reduction: tree}\npartition: auto\ndevices: {use: cpu:2, memory: 85%}\n"
	c, err := configs.Parse("test.yaml", []byte(text), configs.Overlay{})
	if err != nil {
		t.Fatal(err)
	}
	r, err := Open(t.Context(), c, OpenOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range r.Plan.Memory {
		if want := (configs.Memory{Percent: 85}).Of(f.Peak); f.Peak > 0 && f.Limit != want {
			t.Errorf("device %d: the limit is %d, and of the peak of %d it would be %d", f.Device, f.Limit, f.Peak, want)
		}
	}
	if err := r.Close(); err != nil {
		t.Error(err)
	}
}

// too little.
func TestRefusedWithoutALimit(t *testing.T) {
	for memory, want := range map[string]string{"": "cpu: ", "\ndevices: {memory: 1MiB}": "test.yaml:3: devices.memory: cpu: "} {
		c, err := configs.Parse("test.yaml", []byte("data: digits\nmodel: {preset: mlp, hidden: [8]}"+memory), configs.Overlay{})
		if err != nil {
			t.Fatal(err)
		}
		if got := (&setup{config: c}).refused(fmt.Errorf("cpu: %w", device.ErrBudget)).Error(); got != want+device.ErrBudget.Error() {
			t.Errorf("%s: %s", memory, got)
		}
	}
}
