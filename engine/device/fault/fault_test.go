package fault_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/berth-ml/berth/engine/device"
	"github.com/berth-ml/berth/engine/device/fault"
	_ "github.com/berth-ml/berth/engine/device/null" // registers itself
	"github.com/berth-ml/berth/engine/shape"
)

func TestParse(t *testing.T) {
	for _, text := range []string{"cpu:1 launch 3 hang", "cpu:0 copy-in 1 fail", "x:0 alloc 2 oom", "cpu:0 compile 9 lost", "cpu:0 peer 1 lost", "cpu:0 copy-out 1 oom", "cpu:0 launch 3+ slow", "cpu:0 launch 3-9 slow", "cpu:0 peer 1 slow"} {
		f, err := fault.Parse(text)
		if err != nil || f.String() != text {
			t.Errorf("%q: %v, %v", text, f, err)
		}
	}
	for text, want := range map[string]string{
		"":                       "expected a device",
		"cpu:0 launch 3":         "expected a device",
		"cpu:0 launch 0 fail":    "does not number an operation",
		"cpu:0 launch x fail":    "does not number an operation",
		"cpu:0 lunch 1 fail":     "give one of launch",
		"cpu:0 launch 1 fall":    "give one of hang",
		"cpu:0 launch + slow":    "does not number an operation",
		"cpu:0 launch 3-2 slow":  "does not number an operation",
		"cpu:0 launch 3-3 slow":  "does not number an operation",
		"cpu:0 launch 3- slow":   "does not number an operation",
		"cpu:0 launch -3 slow":   "does not number an operation",
		"cpu:0 launch 1-3+ slow": "does not number an operation",
		"cpu:0 alloc 1 hang":     "neither hang nor be slow: give fail, lost or oom",
		"cpu:0 alloc 1 slow":     "neither hang nor be slow: give fail, lost or oom",
		"cpu:0 compile 1 hang":   "cannot hang: give fail, lost, oom or slow",
		"cpu:0 launch 1 fail x":  "expected a device",
	} {
		if _, err := fault.Parse(text); !errors.Is(err, fault.ErrFault) || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
}

// open opens two devices, and makes faults in them.
func open(t *testing.T, texts ...string) []device.Device {
	t.Helper()
	devs, err := device.Open("null", device.OpenOptions{Count: 2, MemoryBytes: 1 << 20})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		for _, d := range devs {
			if err := d.Close(); err != nil {
				t.Error(err)
			}
		}
	})
	var faults []fault.Fault
	for _, text := range texts {
		f, err := fault.Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		faults = append(faults, f)
	}
	wrapped, err := fault.Wrap(devs, faults)
	if err != nil {
		t.Fatal(err)
	}
	return wrapped
}

func TestWrapRefusesUnknownDevices(t *testing.T) {
	devs := open(t)
	_, err := fault.Wrap(devs, []fault.Fault{{Device: "null:2", Op: fault.Launch, N: 1, Kind: fault.Fail}})
	if !errors.Is(err, fault.ErrFault) || !strings.Contains(err.Error(), "null:0, null:1") {
		t.Error(err)
	}
}

// copies queues copies to a device, each on a stream of its own, and returns
// their failures.
func copies(t *testing.T, d device.Device, n int) (errs []error) {
	t.Helper()
	h, err := d.AllocHost(4)
	if err != nil {
		t.Fatal(err)
	}
	defer h.Free()
	for range n {
		s, err := d.NewStream("in")
		if err != nil {
			t.Fatal(err)
		}
		b, err := s.Alloc(shape.F32(1), device.Input)
		if err == nil {
			err = s.CopyIn(b, h)
			if err == nil {
				err = s.Record().Wait(t.Context())
			}
			if e := b.Free(s.Record()); e != nil {
				t.Error(e)
			}
		}
		errs = append(errs, err)
		_ = s.Close()
	}
	return errs
}

// The chosen operation of the chosen device fails, and no other. After a loss,
// all later ones fail too.
func TestFaultsHitTheirOperation(t *testing.T) {
	for kind, want := range map[string]struct {
		cause error
		fails [4]bool
	}{
		"copy-in 2 fail": {fault.ErrInjected, [4]bool{1: true}},
		"copy-in 2 oom":  {device.ErrOutOfMemory, [4]bool{1: true}},
		"copy-in 2 lost": {device.ErrLost, [4]bool{1: true, 2: true, 3: true}},
		"alloc 3 fail":   {fault.ErrInjected, [4]bool{2: true}},
		"alloc 3 oom":    {device.ErrOutOfMemory, [4]bool{2: true}},
		"copy-in 3+ oom": {device.ErrOutOfMemory, [4]bool{2: true, 3: true}},
		"alloc 3 lost":   {device.ErrLost, [4]bool{2: true, 3: true}},
		"launch 1 lost":  {},
	} {
		devs := open(t, "null:1 "+kind)
		for _, err := range copies(t, devs[0], 4) {
			if err != nil {
				t.Errorf("%s: the other device: %v", kind, err)
			}
		}
		for i, err := range copies(t, devs[1], 4) {
			if (err != nil) != want.fails[i] || err != nil && (!errors.Is(err, want.cause) || !errors.Is(err, fault.ErrInjected)) {
				t.Errorf("%s: operation %d: %v", kind, i+1, err)
			}
		}
	}
}

// A slow operation takes longer and succeeds. Cancel spares those that have not begun.
func TestSlowOperations(t *testing.T) {
	d := open(t, "null:0 copy-in 1+ slow")[0]
	began := time.Now()
	for _, err := range copies(t, d, 2) {
		if err != nil {
			t.Error(err)
		}
	}
	if took := time.Since(began); took < 2*fault.SlowTime {
		t.Errorf("two slow copies took %v", took)
	}
	h, err := d.AllocHost(4)
	if err != nil {
		t.Fatal(err)
	}
	s, err := d.NewStream("in")
	if err != nil {
		t.Fatal(err)
	}
	b, err := s.Alloc(shape.F32(1), device.Input)
	if err != nil {
		t.Fatal(err)
	}
	began = time.Now()
	for range 100 {
		if err := s.CopyIn(b, h); err != nil {
			t.Fatal(err)
		}
	}
	for c, ok := d.Running(); !ok || c.What != "copy-in"; c, ok = d.Running() {
		time.Sleep(time.Millisecond)
	}
	s.Cancel(fault.ErrInjected)
	if err := s.Record().Wait(t.Context()); !errors.Is(err, fault.ErrInjected) {
		t.Error(err)
	}
	if took := time.Since(began); took > 50*fault.SlowTime {
		t.Errorf("100 slow copies ended %v after Cancel", took)
	}
	if err := errors.Join(b.Free(s.Record()), s.Close(), h.Free()); err != nil {
		t.Error(err)
	}
}

// A slow operation is work of its device: its span and the time for which its stream is busy tell of it. A device that is
// given up meanwhile ends at once.
func TestSlowOperationsAreWork(t *testing.T) {
	spans := make(chan device.Span, 8)
	devs, err := device.Open("null", device.OpenOptions{Count: 1, MemoryBytes: 1 << 20, OnSpan: func(s device.Span) { spans <- s }})
	if err != nil {
		t.Fatal(err)
	}
	n, delays := 0, []time.Duration{0, 50 * time.Millisecond, time.Hour}
	d := fault.Intercept(devs, func(o fault.Operation) (x fault.Outcome) {
		if o.Op == fault.CopyIn {
			x.Delay = delays[n]
			n++
		}
		return x
	})[0]
	h, err := d.AllocHost(4)
	if err != nil {
		t.Fatal(err)
	}
	s, err := d.NewStream("in")
	if err != nil {
		t.Fatal(err)
	}
	b, err := s.Alloc(shape.F32(1), device.Input)
	if err != nil {
		t.Fatal(err)
	}
	before := s.Busy()
	for range 2 {
		if err := s.CopyIn(b, h); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Record().Wait(t.Context()); err != nil {
		t.Fatal(err)
	}
	if <-spans; s.Busy()-before < int64(delays[1]) {
		t.Errorf("the stream was busy for %v", time.Duration(s.Busy()-before))
	}
	if x := <-spans; x.End.Sub(x.Start)-x.Waited < delays[1] {
		t.Errorf("the span of the slow copy is %+v", x)
	}
	if err := s.CopyIn(b, h); err != nil {
		t.Fatal(err)
	}
	for c, ok := d.Running(); !ok || c.What != "copy-in"; c, ok = d.Running() {
		time.Sleep(time.Millisecond)
	}
	d.GiveUp(fault.ErrInjected)
	if err := s.Record().Wait(t.Context()); !errors.Is(err, fault.ErrInjected) {
		t.Error(err)
	}
	_ = s.Close()
	if err := errors.Join(b.Free(), h.Free(), d.Close()); err != nil {
		t.Error(err)
	}
}

// Devices that are opened again count on, and what was lost works.
func TestAgain(t *testing.T) {
	before := open(t, "null:1 copy-in 2 lost", "null:1 copy-in 4 fail", "null:1 copy-in 9 fail")
	copies(t, before[1], 3)
	devs := fault.Again(open(t), before)
	if errs := copies(t, devs[1], 3); errs[0] != nil || errs[1] == nil || errs[2] != nil {
		t.Errorf("%v", errs)
	}
	if got := strings.Join(fault.Missed(devs), "\n"); got != `the fault "null:1 copy-in 9 fail" did not happen: the last copy-in on null:1 was number 5` {
		t.Errorf("it says %s", got)
	}
}

// Faults whose turn did not come are told.
func TestMissed(t *testing.T) {
	devs := open(t, "null:0 copy-in 9 fail", "null:0 peer 1 fail", "null:1 copy-in 2 lost", "null:1 copy-in 3 fail")
	copies(t, devs[0], 4)
	copies(t, devs[1], 4)
	got := strings.Join(fault.Missed(devs), "\n")
	want := `the fault "null:0 copy-in 9 fail" did not happen: the last copy-in on null:0 was number 4
the fault "null:0 peer 1 fail" did not happen: there was no peer on null:0
the fault "null:1 copy-in 3 fail" did not happen: null:1 was lost before`
	if got != want {
		t.Errorf("it says\n%s", got)
	}
}
