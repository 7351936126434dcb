package serve_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/berth-ml/berth"
	"github.com/berth-ml/berth/cmd/trainer/serve"
	"github.com/berth-ml/berth/engine/device"
	"github.com/berth-ml/berth/engine/device/fault"
)

// onTwo serves a table on two devices with faults.
func onTwo(t *testing.T, x run, follow time.Duration, faults ...string) (s *serve.Server, c *client, log func(text string) (times int)) {
	t.Helper()
	var list []fault.Fault
	for _, f := range faults {
		p, err := fault.Parse(f)
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, p)
	}
	var mu sync.Mutex
	var lines []string
	config := *x.config
	config.Devices.Use = "cpu:2"
	s, c = open(t, run{&config, x.dir}, serve.OpenOptions{Faults: list, Follow: follow, Service: berth.ServeOptions{Batch: 1}, Log: func(text string) {
		mu.Lock()
		defer mu.Unlock()
		lines = append(lines, text)
		t.Log(text)
	}})
	return s, c, func(text string) (times int) {
		mu.Lock()
		defer mu.Unlock()
		for _, l := range lines {
			if strings.Contains(l, text) {
				times++
			}
		}
		return times
	}
}

// states are the devices of GET /healthz, with their states.
func (c *client) states(t *testing.T) map[string]string {
	t.Helper()
	_, text, _ := c.do(t.Context(), http.MethodGet, "/healthz", "")
	var health struct {
		Devices []struct{ Device, Status string }
	}
	if err := json.Unmarshal([]byte(text), &health); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	states := map[string]string{}
	for _, d := range health.Devices {
		states[d.Device] = d.Status
	}
	return states
}

// lose predicts until a device, or the copy of the weights that several have, answers nothing any more.
func (c *client) lose(t *testing.T, id string) {
	t.Helper()
	for began := time.Now(); c.states(t)[id] == "ok"; {
		c.post(t, "/predict", `{"inputs": [`+strings.Repeat("[120, 7], ", 20)+`[120, 7]]}`, &predictions{})
		if time.Since(began) > time.Minute {
			t.Fatalf("%s is not lost", id)
		}
	}
}

// States of two devices.
var (
	one    = map[string]string{"cpu:0": "ok", "cpu:1": "lost"}
	failed = map[string]string{"cpu:0": "ok", "cpu:1": "failed"}
	both   = map[string]string{"cpu:0": "ok", "cpu:1": "ok"}
)

// A device that is lost while newer weights are loaded there keeps none of the others from them.
func TestNewerWeightsWithoutALostDevice(t *testing.T) {
	x := table(t)
	s, c, log := onTwo(t, x, time.Millisecond, "cpu:1 alloc 6 lost")
	before := s.Used()
	x.goOn(t)
	c.until(t, "reloads_total 1")
	if used, states := s.Used(), c.states(t); used.Step <= before.Step || !reflect.DeepEqual(states, one) {
		t.Errorf("%+v, %v", used, states)
	}
	if log("going on without cpu:1, on cpu:0") == 0 {
		t.Error("the loss is not told")
	}
	if log("one copy of the weights answers, on cpu:0") != 1 {
		t.Error("the device that is left is not told once")
	}
	c.until(t, `device_up{device="cpu:0"} 1`, `device_up{device="cpu:1"} 0`)
	c.post(t, "/predict", `{"inputs": [[120, 7]]}`, &predictions{})
}

// A device on which newer weights cannot be loaded keeps the others from them for three tries, and then for none.
func TestNewerWeightsWithoutADeviceThatFails(t *testing.T) {
	x := table(t)
	s, c, log := onTwo(t, x, time.Millisecond, "cpu:1 compile 2+ fail")
	for n := 1; n <= 2; n++ {
		before := s.Used()
		x.goOn(t)
		c.until(t, fmt.Sprintf("reloads_total %d", n), "failed_reloads_total 1")
		if used, states := s.Used(), c.states(t); used.Step <= before.Step || !reflect.DeepEqual(states, failed) {
			t.Errorf("%+v, %v", used, states)
		}
		if log("cannot be loaded") != 1 || log("fail); going on without cpu:1, on cpu:0") != n || log("one copy of the weights answers, on cpu:0") != 1 {
			t.Error("what was left out is told otherwise")
		}
	}
	c.until(t, `device_up{device="cpu:0"} 1`, `device_up{device="cpu:1"} 0`)
}

// Two failures of a device are none after which others go on without it. The pause before a try doubles.
func TestPauseAfterFailedOperations(t *testing.T) {
	const follow = 20 * time.Millisecond
	x := table(t)
	config := *x.config
	config.Devices.Use = "cpu:2"
	var faults []fault.Fault
	for n := 2; n <= 3; n++ {
		faults = append(faults, fault.Fault{Device: "cpu:1", Op: fault.Compile, N: n, Kind: fault.Fail})
	}
	told := make(chan time.Time, 100)
	_, c := open(t, run{&config, x.dir}, serve.OpenOptions{Faults: faults, Follow: follow, Service: berth.ServeOptions{Batch: 1}, Log: func(string) { told <- time.Now() }})
	x.goOn(t)
	c.until(t, "reloads_total 1", "failed_reloads_total 1")
	first, last := <-told, <-told
	if took := last.Sub(first); took < follow+2*follow || len(told) > 0 {
		t.Errorf("tried twice more within %v; %d more lines", took, len(told))
	}
	if states := c.states(t); !reflect.DeepEqual(states, both) {
		t.Errorf("%v", states)
	}
}

// A checkpoint that could not be loaded on the only device is not tried again after three times, until somebody asks or there
// is a newer one.
func TestNewerWeightsOnADeviceThatFails(t *testing.T) {
	for _, asks := range []bool{true, false} {
		x := table(t)
		var faults []fault.Fault
		for n := 2; n <= 4; n++ {
			faults = append(faults, fault.Fault{Device: "cpu:0", Op: fault.Compile, N: n, Kind: fault.Fail})
		}
		told := make(chan string, 100)
		s, c := open(t, x, serve.OpenOptions{Faults: faults, Follow: time.Millisecond, Service: berth.ServeOptions{Batch: 1}, Log: func(text string) { told <- text }})
		before := s.Used()
		x.goOn(t)
		if text := <-told; !strings.Contains(text, "cannot be loaded") {
			t.Error(text)
		}
		if text := <-told; text != "checkpoint 3 is not tried again before POST /reload" {
			t.Error(text)
		}
		time.Sleep(50 * time.Millisecond) // a fourth try would succeed
		if used := s.Used(); used.ID != before.ID {
			t.Errorf("%+v after %+v", used, before)
		}
		if asks {
			c.post(t, "/reload", "", &struct{}{})
		} else {
			x.goOn(t)
		}
		c.until(t, "reloads_total 1", "failed_reloads_total 1")
		if used := s.Used(); used.Step <= before.Step {
			t.Errorf("%+v after %+v", used, before)
		}
	}
}

// Each POST /reload that meets the failure of a device is told.
func TestFailuresOfADeviceAreToldToThoseWhoAsk(t *testing.T) {
	x := table(t)
	_, c, log := onTwo(t, x, -1, "cpu:1 compile 2 fail", "cpu:1 compile 3 fail")
	x.goOn(t)
	for n := 1; n <= 2; n++ {
		if code, text, _ := c.do(t.Context(), http.MethodPost, "/reload", ""); code != http.StatusServiceUnavailable || !strings.Contains(text, "no other checkpoint could be loaded") {
			t.Errorf("%d %s", code, text)
		}
		c.until(t, fmt.Sprintf("failed_reloads_total %d", n))
		if times := log("cannot be loaded"); times != n {
			t.Errorf("told %d times after %d", times, n)
		}
	}
	c.post(t, "/reload", "", &struct{}{})
}

// An operation that fails while newer weights are loaded is the fault of no checkpoint: it is loaded again, on all devices.
func TestNewerWeightsAfterAFailedOperation(t *testing.T) {
	x := table(t)
	s, c, _ := onTwo(t, x, time.Millisecond, "cpu:1 compile 2 fail")
	before := s.Used()
	x.goOn(t)
	c.until(t, "reloads_total 1", "failed_reloads_total 1")
	if used, states := s.Used(), c.states(t); used.Step <= before.Step || !reflect.DeepEqual(states, both) {
		t.Errorf("%+v, %v", used, states)
	}
}

// A device on which an operation fails whenever the model is loaded again after a failure of all is left out. It is told once,
// and POST /reload uses it again.
func TestRepairWithoutADeviceThatFails(t *testing.T) {
	_, c, log := onTwo(t, table(t), -1, "cpu:0 launch 1 lost", "cpu:1 launch 1 lost", "cpu:1 compile 2 fail")
	c.untilRepaired(t)
	c.until(t, "device_failures_total 3")
	if states := c.states(t); !reflect.DeepEqual(states, failed) || log("fail); going on without cpu:1, on cpu:0") != 1 || log("the model cannot be loaded") != 0 {
		t.Errorf("%v", states)
	}
	c.until(t, `device_up{device="cpu:0"} 1`, `device_up{device="cpu:1"} 0`)
	c.post(t, "/reload", "", &struct{}{})
	if states := c.states(t); !reflect.DeepEqual(states, both) {
		t.Errorf("after POST /reload: %v", states)
	}
	c.until(t, `device_up{device="cpu:0"} 1`, `device_up{device="cpu:1"} 1`)
}

// A device that is lost while newer weights are loaded is one failure, though the weights in use lose it, too.
func TestALossIsCountedOnce(t *testing.T) {
	x := table(t)
	_, c := open(t, x, serve.OpenOptions{Faults: []fault.Fault{{Device: "cpu:0", Op: fault.Alloc, N: 6, Kind: fault.Lost}}, Follow: -1, Service: berth.ServeOptions{Batch: 1}})
	x.goOn(t)
	if code, text, _ := c.do(t.Context(), http.MethodPost, "/reload", ""); code != http.StatusServiceUnavailable {
		t.Errorf("%d %s", code, text)
	}
	c.until(t, "device_failures_total 1")
	c.untilRepaired(t)
	c.until(t, "device_failures_total 1", "repairs_total 1")
}

// Where memory is too little for an answer, no device has failed.
func TestTooLittleMemoryIsNoFailureOfADevice(t *testing.T) {
	_, c := open(t, table(t), serve.OpenOptions{Faults: []fault.Fault{{Device: "cpu:0", Op: fault.Launch, N: 1, Kind: fault.OOM}}, Service: berth.ServeOptions{Batch: 1}})
	if code, text, _ := c.do(t.Context(), http.MethodPost, "/predict", `{"inputs": [[120, 7]]}`); code != http.StatusServiceUnavailable || !strings.Contains(text, "memory") {
		t.Errorf("%d %s", code, text)
	}
	c.untilRepaired(t)
	c.until(t, "device_failures_total 0")
}

// A device one of whose operations failed answers again after POST /reload, and one that is lost does not.
func TestReloadBringsADeviceBack(t *testing.T) {
	for kind, want := range map[string]map[string]string{"fail": both, "lost": one} {
		_, c, log := onTwo(t, table(t), -1, "cpu:0 launch 1 slow", "cpu:1 launch 1 "+kind)
		c.lose(t, "cpu:1")
		c.until(t, "device_failures_total 1", "repairs_total 0")
		if state := c.states(t)["cpu:1"]; (state == "failed") != (kind == "fail") {
			t.Errorf("%s: cpu:1 is %s", kind, state)
		}
		var loaded struct {
			Devices []struct{ Device, Status string }
		}
		c.post(t, "/reload", "", &loaded)
		states := map[string]string{}
		for _, d := range loaded.Devices {
			states[d.Device] = d.Status
		}
		if !reflect.DeepEqual(states, want) || !reflect.DeepEqual(c.states(t), want) {
			t.Errorf("%s: %v, and then %v", kind, states, c.states(t))
		}
		remedy := map[string]string{"fail": "cpu:1 answers again after POST /reload, or with the next newer checkpoint", "lost": "cpu:1 is lost: it answers again after a restart"}[kind]
		back := map[string]int{"fail": 1}[kind]
		if log(remedy) != 1 || log("2 copies of the weights answer at the same time, on the devices cpu:0; cpu:1") != back || log("s0.F") != 0 {
			t.Errorf("%s: the log says otherwise", kind)
		}
	}
}

// The weights in use stay, and no older ones take their place, where they are to be loaded anew and their checkpoint is damaged.
func TestReloadOfDamagedWeightsInUse(t *testing.T) {
	x := table(t)
	s, c, log := onTwo(t, x, -1, "cpu:0 launch 1 slow", "cpu:1 launch 1 fail")
	before := s.Used()
	c.lose(t, "cpu:1")
	x.damageNewest(t)
	const want = "the weights in use cannot be loaded anew for cpu:1: "
	if code, text, _ := c.do(t.Context(), http.MethodPost, "/reload", ""); code != http.StatusServiceUnavailable || !strings.Contains(text, `"message":"`+want) || !strings.Contains(text, "damaged") {
		t.Errorf("%d %s", code, text)
	}
	if used, states := s.Used(), c.states(t); used.ID != before.ID || !reflect.DeepEqual(states, failed) || log(want) != 1 {
		t.Errorf("%+v after %+v, %v", used, before, states)
	}
	c.post(t, "/predict", `{"inputs": [[120, 7]]}`, &predictions{})
}

// Adapters keep the weights that they have where a device comes back, also those whose checkpoint is damaged.
func TestReloadBringsADeviceBackToAdapters(t *testing.T) {
	rows := "height,width,kind\n" + strings.Repeat("100,3,cat\n120,7,dog\n150,1,cow\n", 8)
	a := beside(t, catsConfig, exported(t, trained(t, rows, catsConfig)), rows, "{rank: 2, targets: [out]}")
	a.config.Devices.Use = "cpu:2"
	faults := []fault.Fault{{Device: "cpu:0", Op: fault.Launch, N: 1, Kind: fault.Slow}, {Device: "cpu:1", Op: fault.Launch, N: 1, Kind: fault.Fail}}
	s, c := openAdapters(t, serve.OpenOptions{Adapters: []berth.Adapter{a.adapter("a")}, Faults: faults, Follow: -1, Service: berth.ServeOptions{Batch: 1}})
	before := s.Parts()[1].Used.ID
	c.lose(t, "cpu:1")
	a.damageNewest(t)
	var loaded struct{ Changed bool }
	c.post(t, "/reload", "", &loaded)
	if used, states := s.Parts()[1].Used.ID, c.states(t); loaded.Changed || used != before || !reflect.DeepEqual(states, both) {
		t.Errorf("changed: %v, checkpoint %d after %d, %v", loaded.Changed, used, before, states)
	}
}

// paired is a table's run on two groups of two devices.
func paired(t *testing.T) run {
	t.Helper()
	x := table(t)
	c := *x.config
	c.Devices.Use, c.Partition.Stages.Count = "cpu:4", 2
	return run{&c, x.dir}
}

// The partner of a lost device answers again after POST /reload.
func TestReloadBringsAPartnerBack(t *testing.T) {
	_, c := open(t, paired(t), serve.OpenOptions{Faults: []fault.Fault{{Device: "cpu:1", Op: fault.Launch, N: 1, Kind: fault.Lost}}, Follow: -1, Service: berth.ServeOptions{Batch: 1}})
	c.lose(t, "cpu:0,cpu:1")
	if states, want := c.states(t), (map[string]string{"cpu:0,cpu:1": "lost", "cpu:2,cpu:3": "ok"}); !reflect.DeepEqual(states, want) {
		t.Errorf("%v", states)
	}
	c.post(t, "/reload", "", &struct{}{})
	if states, want := c.states(t), (map[string]string{"cpu:0,cpu:2,cpu:3": "ok", "cpu:1": "lost"}); !reflect.DeepEqual(states, want) {
		t.Errorf("after POST /reload: %v", states)
	}
}

// A device that is gone is told, also where another one of its group failed.
func TestRepairWithoutAPartnerThatIsGone(t *testing.T) {
	opened := 0
	device.Register("brittle", func(o device.OpenOptions) ([]device.Device, error) {
		if opened++; opened > 1 && o.Count > 3 {
			return nil, errors.New("brittle: there are 3 devices")
		}
		return device.Open("cpu", o)
	})
	x := paired(t)
	x.config.Devices.Use = "brittle:4"
	lost := []fault.Fault{{Device: "cpu:0", Op: fault.Launch, N: 1, Kind: fault.Lost}, {Device: "cpu:2", Op: fault.Launch, N: 1, Kind: fault.Lost}}
	_, c := open(t, x, serve.OpenOptions{Faults: lost, Follow: -1, Service: berth.ServeOptions{Batch: 1}})
	c.untilRepaired(t)
	if states, want := c.states(t), (map[string]string{"cpu:0,cpu:1,cpu:2": "ok", "cpu:3": "lost"}); !reflect.DeepEqual(states, want) {
		t.Errorf("%v", states)
	}
	c.until(t, `device_up{device="cpu:0,cpu:1,cpu:2"} 1`, `device_up{device="cpu:3"} 0`)
}

// A device that cannot be opened any more after a failure of all is left out, and told once.
func TestRepairWithoutADeviceThatIsGone(t *testing.T) {
	opened := 0
	device.Register("frail", func(o device.OpenOptions) ([]device.Device, error) {
		if opened++; opened > 1 && o.Count > 1 {
			return nil, errors.New("frail: there is 1 device")
		}
		return device.Open("cpu", o)
	})
	x := table(t)
	x.config.Devices.Use = "frail:2"
	told := make(chan string, 100)
	lost := []fault.Fault{{Device: "cpu:0", Op: fault.Launch, N: 1, Kind: fault.Lost}, {Device: "cpu:1", Op: fault.Launch, N: 1, Kind: fault.Lost}}
	_, c := open(t, x, serve.OpenOptions{Faults: lost, Follow: -1, Service: berth.ServeOptions{Batch: 1}, Log: func(text string) { told <- text }})
	c.untilRepaired(t)
	if states := c.states(t); !reflect.DeepEqual(states, one) {
		t.Errorf("%v", states)
	}
	times := 0
	for len(told) > 0 {
		if text := <-told; text == "devices: frail: there is 1 device; going on without these devices, on cpu:0" {
			times++
		}
	}
	if times != 1 {
		t.Errorf("the missing device is told %d times", times)
	}
}

// untilRepaired sends requests until the model was loaded again after the failure of a device, and one is answered.
func (c *client) untilRepaired(t *testing.T) {
	t.Helper()
	for began := time.Now(); ; time.Sleep(time.Millisecond) {
		code, _, _ := c.do(t.Context(), http.MethodPost, "/predict", `{"inputs": [[120, 7], [120, 7], [120, 7], [120, 7]]}`)
		if _, text, _ := c.do(t.Context(), http.MethodGet, "/metrics", ""); code == http.StatusOK && strings.Contains(text, "berth_serve_repairs_total 1\n") {
			return
		}
		if time.Since(began) > time.Minute {
			t.Fatal("the model is not loaded again")
		}
	}
}
