package serve_test

import (
	"encoding/json"
	"errors"
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

// lose predicts until a device is lost.
func (c *client) lose(t *testing.T, id string) {
	t.Helper()
	for began := time.Now(); c.states(t)[id] != "lost"; {
		c.post(t, "/predict", `{"inputs": [`+strings.Repeat("[120, 7], ", 20)+`[120, 7]]}`, &predictions{})
		if time.Since(began) > time.Minute {
			t.Fatalf("%s is not lost", id)
		}
	}
}

var one, both = map[string]string{"cpu:0": "ok", "cpu:1": "lost"}, map[string]string{"cpu:0": "ok", "cpu:1": "ok"}

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
	c.until(t, `device_up{device="cpu:0"} 1`, `device_up{device="cpu:1"} 0`)
	c.post(t, "/predict", `{"inputs": [[120, 7]]}`, &predictions{})
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
	for began := time.Now(); ; time.Sleep(time.Millisecond) {
		code, _, _ := c.do(t.Context(), http.MethodPost, "/predict", `{"inputs": [[120, 7], [120, 7], [120, 7], [120, 7]]}`)
		if _, text, _ := c.do(t.Context(), http.MethodGet, "/metrics", ""); code == http.StatusOK && strings.Contains(text, "device_failures_total 1") {
			break
		}
		if time.Since(began) > time.Minute {
			t.Fatal("the model is not loaded again")
		}
	}
	if states := c.states(t); !reflect.DeepEqual(states, one) || log("fail); going on without cpu:1, on cpu:0") != 1 || log("the model cannot be loaded") != 0 {
		t.Errorf("%v", states)
	}
	c.until(t, `device_up{device="cpu:0"} 1`, `device_up{device="cpu:1"} 0`)
	c.post(t, "/reload", "", &struct{}{})
	if states := c.states(t); !reflect.DeepEqual(states, both) {
		t.Errorf("after POST /reload: %v", states)
	}
	c.until(t, `device_up{device="cpu:0"} 1`, `device_up{device="cpu:1"} 1`)
}

// A device one of whose operations failed answers again after POST /reload, and one that is lost does not.
func TestReloadBringsADeviceBack(t *testing.T) {
	for kind, want := range map[string]map[string]string{"fail": both, "lost": one} {
		_, c, _ := onTwo(t, table(t), -1, "cpu:0 launch 1 slow", "cpu:1 launch 1 "+kind)
		c.lose(t, "cpu:1")
		c.post(t, "/reload", "", &struct{}{})
		if states := c.states(t); !reflect.DeepEqual(states, want) {
			t.Errorf("%s: %v", kind, states)
		}
	}
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
	for began := time.Now(); ; time.Sleep(time.Millisecond) {
		code, _, _ := c.do(t.Context(), http.MethodPost, "/predict", `{"inputs": [[120, 7], [120, 7], [120, 7], [120, 7]]}`)
		if _, text, _ := c.do(t.Context(), http.MethodGet, "/metrics", ""); code == http.StatusOK && strings.Contains(text, "device_failures_total 1") {
			break
		}
		if time.Since(began) > time.Minute {
			t.Fatal("the model is not loaded again")
		}
	}
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
