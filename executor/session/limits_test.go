package session

import (
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/berth-ml/berth/configs"
	"github.com/berth-ml/berth/engine/device"
	_ "github.com/berth-ml/berth/engine/models"
	_ "github.com/berth-ml/berth/engine/optim"
	"github.com/berth-ml/berth/partition"
	"github.com/berth-ml/berth/partition/planning"
	"github.com/berth-ml/berth/residency"
)

// TestLimited turns percentages of the devices' peaks into bytes.
func TestLimited(t *testing.T) {
	const mib = 1 << 20
	percent, bytes := func(p float64) configs.Memory { return configs.Memory{Percent: p} }, func(n int64) configs.Memory { return configs.Memory{Bytes: n} }
	for _, c := range []struct {
		asked configs.Devices
		peaks []int64 // of the last devices
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
		{configs.Devices{Use: "cpu:2", Memory: percent(50)}, []int64{mib},
			configs.Devices{Each: []configs.DeviceEntry{{Use: "cpu"}, {Use: "cpu", Memory: bytes(mib / 2)}}}, 1},
	} {
		all, err := oneByOne(c.asked)
		if err != nil {
			t.Fatal(err)
		}
		var at []int
		for i := range c.peaks {
			at = append(at, len(all)-len(c.peaks)+i)
		}
		got, notes, err := limited(c.asked, at, make([]device.Spec, len(c.peaks)), c.peaks)
		if err != nil || !reflect.DeepEqual(got, c.want) || len(notes) != c.notes {
			t.Errorf("%+v with peaks of %d:\n%+v, %q, %v, expected\n%+v and %d notes", c.asked, c.peaks, got, notes, err, c.want, c.notes)
		}
	}
}

// Where nobody limits the memory of devices, no line is to blame that the process has too little.
func TestRefusedWithoutALimit(t *testing.T) {
	for memory, want := range map[string]string{"": "cpu: ", "\ndevices: {memory: 1MiB}": "test.yaml:3: devices.memory: cpu: "} {
		c, err := configs.Parse("test.yaml", []byte("data: digits\nmodel: {preset: mlp, hidden: [8]}"+memory), configs.Overlay{})
		if err != nil {
			t.Fatal(err)
		}
		if got := refused(c, fmt.Errorf("cpu: %w", device.ErrBudget)).Error(); got != want+device.ErrBudget.Error() {
			t.Errorf("%s: %s", memory, got)
		}
	}
}

// Without a bound on host memory, a plan under a limit is refused where the machine has too little
// memory for the device and for what leaves it.
func TestSpillShortage(t *testing.T) {
	const peak, limit, leaves, takes = 100 << 20, 70 << 20, 30 << 20, 1 << 20
	s := &Session{
		Plan:    &partition.Plan{Memory: []partition.Forecast{{Peak: peak, Limit: limit, Host: leaves}}},
		Planner: &planning.Planner{Specs: []device.Spec{{HostVisible: true, CopyOut: true}}},
	}
	const need = limit + leaves + takes + goHeap
	if err := s.spillShortage(takes, need); err != nil {
		t.Error(err)
	}
	err := s.spillShortage(takes, need-1)
	if !errors.Is(err, residency.ErrHostMemory) || !strings.Contains(err.Error(), "--host-memory") {
		t.Error(err)
	}
	s.Plan.Memory[0].Limit = 2 * peak
	if err := s.spillShortage(takes, 0); err != nil {
		t.Errorf("nothing leaves the device: %v", err)
	}
}
