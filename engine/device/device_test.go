package device_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/berth-ml/berth/engine/device"
	"github.com/berth-ml/berth/engine/graph"
)

func TestRegistry(t *testing.T) {
	called := false
	device.Register("registry-test", func(o device.OpenOptions) ([]device.Device, error) {
		called = o.Count == 3
		return nil, nil
	})
	if !slices.Contains(device.Kinds(), "registry-test") {
		t.Errorf("kinds are %v", device.Kinds())
	}
	if _, err := device.Open("registry-test", device.OpenOptions{Count: 3}); err != nil || !called {
		t.Errorf("the opener was not called with the options: %v", err)
	}
	if _, err := device.Open("registry-test", device.OpenOptions{}); err == nil {
		t.Error("no devices were asked for, and that is no error")
	}
	_, err := device.Open("nosuch", device.OpenOptions{Count: 1})
	if err == nil || !strings.Contains(err.Error(), "registry-test") {
		t.Errorf("%v does not say which kinds there are", err)
	}
	defer func() {
		if recover() == nil {
			t.Error("a second registration is accepted")
		}
	}()
	device.Register("registry-test", nil)
}

func TestZeroEventHasHappened(t *testing.T) {
	var e device.Event
	if !e.Done() || e.Err() != nil || e.Wait(t.Context()) != nil {
		t.Error("the zero event is pending or failed")
	}
}

func TestNonFiniteErrorNamesLayerAndValue(t *testing.T) {
	err := error(&device.NonFiniteError{Node: &graph.Node{Layer: &graph.Layer{Index: 3, Type: "dense", Name: "fc2"}}, Value: "fc2.matmul", Index: 7})
	if !errors.Is(err, device.ErrNonFinite) {
		t.Error("it is not an ErrNonFinite")
	}
	if want := `layer 3 (dense "fc2"): fc2.matmul has a value that is not finite (element 7)`; err.Error() != want {
		t.Errorf("got %q, want %q", err, want)
	}
}

// Each wrong number is named with its value and its remedy.
func TestOpenOptionsAreChecked(t *testing.T) {
	for want, o := range map[string]device.OpenOptions{
		"0 devices: open at least 1":         {},
		"-1 threads: give a positive number": {Count: 1, Threads: -1},
		"a budget of -2 bytes: give":         {Count: 1, MemoryBytes: -2},
	} {
		if err := o.Check(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: error %v, expected %q", o, err, want)
		}
	}
	if err := (device.OpenOptions{Count: 1}).Check(); err != nil {
		t.Error(err)
	}
}
