package timing_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/berth-ml/berth/engine/device"
	_ "github.com/berth-ml/berth/engine/device/cpu" // registers itself
	"github.com/berth-ml/berth/engine/device/fault"
	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/executor"
	"github.com/berth-ml/berth/executor/timing"
	"github.com/berth-ml/berth/internal/smallrun"
	"github.com/berth-ml/berth/partition"
	"github.com/berth-ml/berth/partition/costs"
)

func tasks(t *testing.T, r *smallrun.Run) []timing.Task {
	t.Helper()
	launches, err := r.Plan.Launches(partition.StepOptions{Microbatches: 1})
	if err != nil {
		t.Fatal(err)
	}
	return timing.Tasks(r.Plan, launches)
}

// Every segment gets a time, and known ones are left out.
func TestSegments(t *testing.T) {
	r := smallrun.New(t, "cpu:2")
	list := tasks(t, r)
	told := 0.0
	o := timing.Options{Least: time.Millisecond, Progress: func(share float64) { told = max(told, share) }}
	times, err := timing.Segments(t.Context(), r.Devices, list, o)
	if err != nil {
		t.Fatal(err)
	}
	if len(times) != len(list) || told != 1 {
		t.Errorf("%d times of %d segments, %.0f%% done: %v", len(times), len(list), 100*told, times)
	}
	for k, s := range times {
		if s <= 0 || s > 10 {
			t.Errorf("%v takes %v s", k, s)
		}
	}
	o.Known = func(k costs.Key) bool { return times[k] > 0 }
	again, err := timing.Segments(t.Context(), r.Devices, list, o)
	if err != nil || len(again) != 0 {
		t.Errorf("known times are measured again: %v, %v", again, err)
	}
}

func TestMeasuringEnds(t *testing.T) {
	r := smallrun.New(t, "cpu:2")
	ctx, cancel := context.WithCancelCause(t.Context())
	enough := errors.New("enough")
	o := timing.Options{Least: time.Hour, Progress: func(float64) { cancel(enough) }}
	if _, err := timing.Segments(ctx, r.Devices, tasks(t, r), o); !errors.Is(err, enough) {
		t.Error(err)
	}
}

// A device with memory for one segment at a time is measured too.
func TestLittleMemory(t *testing.T) {
	r := smallrun.New(t, "cpu:2")
	list := tasks(t, r)
	for i := range list {
		list[i].Device = 0
	}
	small, err := device.Open("cpu", device.OpenOptions{Count: 1, MemoryBytes: r.Plan.Memory[0].Floor})
	if err != nil {
		t.Fatal(err)
	}
	defer small[0].Close()
	for _, opByOp := range []bool{false, true} {
		times, err := timing.Segments(t.Context(), small, list, timing.Options{OpByOp: opByOp, Least: time.Millisecond})
		if err != nil || len(times) != len(list) {
			t.Errorf("op by op %v: %v, %v", opByOp, times, err)
		}
		if live := small[0].Stats().Live; live != 0 {
			t.Errorf("op by op %v: %d bytes are not freed", opByOp, live)
		}
	}
}

// Segments that do not fit on their device get no times.
func TestTooLittleMemory(t *testing.T) {
	r := smallrun.New(t, "cpu:1")
	list := tasks(t, r)
	small, err := device.Open("cpu", device.OpenOptions{Count: 1, MemoryBytes: 64 << 10})
	if err != nil {
		t.Fatal(err)
	}
	defer small[0].Close()
	times, err := timing.Segments(t.Context(), small, list, timing.Options{Least: time.Millisecond})
	if err != nil || len(times) > 0 {
		t.Error(times, err)
	}
	if live := small[0].Stats().Live; live != 0 {
		t.Errorf("%d bytes are not freed", live)
	}
}

// largeCopyTime is what a large copy takes more on a slow device: long compared with the time in
// which a thread wakes up on a busy machine.
const largeCopyTime = 20 * time.Millisecond

// slow is a device that takes long for large copies from its peers.
type slow struct{ device.Device }

func (d slow) NewStream(name string) (device.Stream, error) {
	s, err := d.Device.NewStream(name)
	return slowStream{s}, err
}

type slowStream struct{ device.Stream }

func (s slowStream) CopyPeer(dst, src device.Buffer) error {
	if dst.Meta().Bytes() == costs.LargeCopy {
		time.Sleep(largeCopyTime)
	}
	return s.Stream.CopyPeer(dst, src)
}

// Copies are timed once for equal devices, and not at all where there is one device.
func TestCopies(t *testing.T) {
	r := smallrun.New(t, "cpu:2")
	var devs []device.Device
	var on []device.Spec
	for _, d := range r.Devices {
		devs, on = append(devs, slow{d}), append(on, d.Spec())
	}
	times, err := timing.Copies(t.Context(), devs, tasks(t, r), timing.Options{})
	if err != nil || len(times) != 2 {
		t.Fatal(times, err)
	}
	small, large := times[costs.CopyKey(costs.On(on, 0), costs.SmallCopy)], times[costs.CopyKey(costs.On(on, 1), costs.LargeCopy)]
	if half := largeCopyTime.Seconds() / 2; small <= 0 || small >= half || large <= half {
		t.Errorf("a small copy takes %v s, a large one %v s, which is at least %v", small, large, largeCopyTime)
	}
	if none, err := timing.Copies(t.Context(), devs[:1], nil, timing.Options{}); len(none) != 0 || err != nil {
		t.Error(none, err)
	}
}

// A device that hangs while it measures ends the measuring, with an error that names
// the operation.
func TestHangEndsMeasuring(t *testing.T) {
	r := smallrun.New(t, "cpu:2")
	devs, err := fault.Wrap(r.Devices, []fault.Fault{{Device: "cpu:1", Op: fault.Launch, N: 3, Kind: fault.Hang}})
	if err != nil {
		t.Fatal(err)
	}
	defer executor.WatchDevices(devs[1:], executor.WatchOptions{Timeout: 50 * time.Millisecond, Setting: "devices.timeout"})()
	_, err = timing.Segments(t.Context(), devs, tasks(t, r), timing.Options{Least: time.Minute})
	var hang *executor.HangError
	if !errors.As(err, &hang) || hang.Device != "cpu:1" {
		t.Error(err)
	}
}

// refusing is a device that runs no segment that the function picks.
type refusing struct {
	device.Device
	picks func(g *graph.Graph) bool
}

func (d refusing) Compile(g *graph.Graph, o device.CompileOptions) (device.Executable, error) {
	if d.picks(g) {
		return nil, fmt.Errorf("no kernel: %w", device.ErrUnsupported)
	}
	return d.Device.Compile(g, o)
}

// Segments that a device does not run get no time there, and the others do.
func TestUnsupportedSegments(t *testing.T) {
	r := smallrun.New(t, "cpu:2")
	list := tasks(t, r)
	refused := list[0].Variant.Graph
	for _, all := range []bool{false, true} {
		devs := slices.Clone(r.Devices)
		for i, d := range devs {
			devs[i] = refusing{d, func(g *graph.Graph) bool { return g == refused || all && list[0].Device == i }}
		}
		times, err := timing.Segments(t.Context(), devs, list, timing.Options{Least: time.Millisecond})
		if err != nil || len(times) >= len(list) || len(times) == 0 {
			t.Errorf("all segments of a device: %v: %d times of %d segments: %v", all, len(times), len(list), err)
		}
		if _, err := timing.Copies(t.Context(), devs, list, timing.Options{}); err != nil {
			t.Error(err)
		}
	}
}
