package configs

import (
	"cmp"
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"
)

// smallOn is a small config with a value of devices.
func smallOn(devices string) string {
	return "data: digits\nmodel: {preset: mlp}\ndevices: " + devices + "\n"
}

// TestDeviceLists reads both forms of devices, with overrides.
func TestDeviceLists(t *testing.T) {
	two := "[{use: cpu, threads: 1, memory: 2GiB}, {use: cpu, memory: 512MiB}]"
	listed := Devices{Each: []DeviceEntry{{Use: "cpu", Threads: 1, Memory: Memory{Bytes: 2 << 30}}, {Use: "cpu", Memory: Memory{Bytes: 512 << 20}}}}
	for _, c := range []struct {
		text string
		over Overlay
		want Devices
	}{
		{"cpu:2", Overlay{}, Devices{Use: "cpu:2"}},
		{two, Overlay{}, listed},
		{"{each: " + two + "}", Overlay{}, listed},
		{"\n  - cpu\n  - use: null:2", Overlay{}, Devices{Each: []DeviceEntry{{Use: "cpu"}, {Use: "null:2"}}}},
		{two, Overlay{Flags: map[string]string{"devices": "cpu:3"}}, Devices{Use: "cpu:3"}},
		{two, Overlay{Set: []string{"devices=cpu:3", "devices.memory=1MiB"}}, Devices{Use: "cpu:3", Memory: Memory{Bytes: 1 << 20}}},
		{two, Overlay{Flags: map[string]string{"threads": "3"}},
			Devices{Each: []DeviceEntry{{Use: "cpu", Threads: 2, Memory: Memory{Bytes: 2 << 30}}, {Use: "cpu", Threads: 1, Memory: Memory{Bytes: 512 << 20}}}}},
		{two, Overlay{Flags: map[string]string{"threads": "0"}},
			Devices{Each: []DeviceEntry{{Use: "cpu", Memory: Memory{Bytes: 2 << 30}}, {Use: "cpu", Memory: Memory{Bytes: 512 << 20}}}}},
		{"[cpu:2, cpu]", Overlay{Env: []string{"BERTH_DEVICES_THREADS=5"}}, Devices{Each: []DeviceEntry{{Use: "cpu:2", Threads: 4}, {Use: "cpu", Threads: 1}}}},
		{"[cpu:2, cpu]", Overlay{Set: []string{"devices.threads=1"}}, Devices{Each: []DeviceEntry{{Use: "cpu:2", Threads: 2}, {Use: "cpu", Threads: 1}}}},
		{two, Overlay{Set: []string{"devices.memory=1MiB"}},
			Devices{Each: []DeviceEntry{{Use: "cpu", Threads: 1, Memory: Memory{Bytes: 1 << 20}}, {Use: "cpu", Memory: Memory{Bytes: 1 << 20}}}}},
		{"{use: cpu:2, threads: 4, memory: 1GiB}", Overlay{Set: []string{"devices.each=[{use: cpu, threads: 1}]"}}, Devices{Each: []DeviceEntry{{Use: "cpu", Threads: 1}}}},
		{two, Overlay{Flags: map[string]string{"host-memory": "1GiB", "spill-dir": "/tmp/x"}}, Devices{Each: listed.Each, HostMemory: 1 << 30, SpillDir: "/tmp/x"}},
		{"{use: cpu, host_memory: 1GiB, spill_dir: x}", Overlay{Flags: map[string]string{"host-memory": "0"}}, Devices{Use: "cpu"}},
		{"{use: cpu, op_by_op: log}", Overlay{Flags: map[string]string{"op-by-op": "trace,sync"}}, Devices{Use: "cpu", OpByOp: "trace,sync"}},
		{"{use: cpu, op_by_op: ' trace , log'}", Overlay{Flags: map[string]string{"op-by-op": "log, sync "}}, Devices{Use: "cpu", OpByOp: "log,sync"}},
		{"{use: cpu, op_by_op: ' trace , log'}", Overlay{}, Devices{Use: "cpu", OpByOp: "trace,log"}},
		{"{use: cpu, op_by_op: 'sync,log'}", Overlay{}, Devices{Use: "cpu", OpByOp: "sync,log"}},
		{"cpu:2", Overlay{Set: []string{"devices.host_memory=1MiB"}}, Devices{Use: "cpu:2", HostMemory: 1 << 20}},
		{"[cpu, cpu]", Overlay{Flags: map[string]string{"device-memory": "50%"}},
			Devices{Each: []DeviceEntry{{Use: "cpu", Memory: Memory{Percent: 50}}, {Use: "cpu", Memory: Memory{Percent: 50}}}}},
		{"cpu:2", Overlay{Set: []string{"devices=[{use: cpu, threads: 1}]"}}, Devices{Each: []DeviceEntry{{Use: "cpu", Threads: 1}}}},
		{"cpu:2", Overlay{Env: []string{"BERTH_DEVICES= [cpu, cpu]"}}, Devices{Each: []DeviceEntry{{Use: "cpu"}, {Use: "cpu"}}}},
		{two, Overlay{Set: []string{"devices=cpu:2"}}, Devices{Use: "cpu:2"}},
		{"cpu", Overlay{Flags: map[string]string{"op-by-op": "log"}}, Devices{Use: "cpu", OpByOp: OpByOpLog}},
		{"cpu:2", Overlay{Env: []string{"BERTH_DEVICES_EACH=[cpu, cpu]"}}, Devices{Each: []DeviceEntry{{Use: "cpu"}, {Use: "cpu"}}}},
	} {
		config := parse(t, smallOn(c.text), c.over)
		roundTrip(t, config)
		c.want.Timeout, c.want.OnLoss = 5*time.Minute, OnLossStop
		c.want.OpByOp, c.want.Compile, c.want.Compiled = cmp.Or(c.want.OpByOp, OpByOpNone), CompileWait, 256
		if got := withoutPos(config).Devices; !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s with %+v is %+v, expected %+v", c.text, c.over, got, c.want)
		}
	}
}

// TestBlankDevices reads the file of a run that a literal without defaults wrote.
func TestBlankDevices(t *testing.T) {
	got := parse(t, smallOn("\n  use: cpu\n  timeout: 0\n  evict:\n  on_device_loss:\n  op_by_op:"), Overlay{}).Devices
	if got.OnLoss != OnLossStop || got.OpByOp != OpByOpNone || got.Timeout != NoTimeout {
		t.Errorf("read as %+v", got)
	}
	if _, err := Parse("x", []byte(smallOn("cpu")), Overlay{Set: []string{"devices.on_device_loss="}}); err == nil {
		t.Error("--set devices.on_device_loss= is taken")
	}
}

// TestDeviceListMistakes checks the place and the words of each mistake.
func TestDeviceListMistakes(t *testing.T) {
	for _, c := range []struct {
		text, key string
		line      int
		words     string
	}{
		{"[]", "devices.each", 3, "at least one device"},
		{"\n- cpu\n- {memory: 1GiB}", "devices.each[1].use", 5, "missing, expected a kind of device such as cpu, or cpu:2 for two of them: the entry's devices"},
		{"\n- cpu\n- use: cpu\n  memory: 1KiB", "devices.each[1].memory", 6, "at least 64KiB"},
		{"\n- use: cpu\n  treads: 1", "devices.each[0].treads", 5, `did you mean "threads"?`},
		{`["cpu:2,null:1"]`, "devices.each[0].use", 3, "a kind of device"},
		{"\n  use: cpu\n  each: [cpu]", "devices.use", 4, "exclude each other"},
		{"{spill_dir: x}", "devices.spill_dir", 3, "nothing is spilled unless devices.host_memory limits host memory"},
		{"{op_by_op: 'log,log'}", "devices.op_by_op", 3, "or several of log, trace, sync with commas between them"},
		{"{op_by_op: 'plain,log'}", "devices.op_by_op", 3, "or several of log, trace, sync with commas between them"},
		{"{host_memory: 5}", "devices.host_memory", 3, "at least 1MiB"},
		{"\n  - [cpu]", "devices.each[0]", 4, "or the value of use alone"},
	} {
		_, err := Parse("a.yaml", []byte(smallOn(c.text)), Overlay{})
		var e *Error
		if !errors.As(err, &e) || e.Key != c.key || e.Pos != (Pos{"a.yaml", c.line}) || !strings.Contains(e.Msg, c.words) {
			t.Errorf("%s: %v, expected %s at line %d with %q", c.text, err, c.key, c.line, c.words)
		}
	}
}
