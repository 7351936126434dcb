package timing_test

import (
	"testing"
	"time"

	"github.com/berth-ml/berth/engine/device"
	"github.com/berth-ml/berth/executor/timing"
	"github.com/berth-ml/berth/internal/smallrun"
	"github.com/berth-ml/berth/partition/costs"
)

// Op by op, every segment gets a time of its own, and so does a call. Nothing stays on the
// device, and known times are not taken again.
func TestOpByOp(t *testing.T) {
	r := smallrun.New(t, "cpu:1")
	list := tasks(t, r)
	devs, err := device.Open("cpu", device.OpenOptions{Count: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer devs[0].Close()
	o := timing.Options{OpByOp: true, Least: time.Millisecond}
	times, err := timing.All(t.Context(), devs, list, o)
	if err != nil {
		t.Fatal(err)
	}
	on := costs.On([]device.Spec{devs[0].Spec()}, 0)
	if call := times[costs.CallKey(on)]; call <= 0 || call > 1e-2 || len(times) != len(list)+5 {
		t.Errorf("a call takes %v s; %d times of %d segments", call, len(times), len(list))
	}
	for _, out := range []bool{false, true} {
		if s := times[costs.HostKey(on, costs.LargeCopy, out)]; s <= 0 || s > 1 {
			t.Errorf("a large copy, out %v, takes %v s", out, s)
		}
	}
	for _, x := range list {
		if s := times[costs.SegmentKey(x.Variant.Graph, true, on)]; s <= 0 || s > 10 {
			t.Errorf("%s takes %v s", x.Name, s)
		}
	}
	if live := devs[0].Stats().Live; live != 0 {
		t.Errorf("%d bytes are not freed", live)
	}
	o.Known = func(k costs.Key) bool { return times[k] > 0 }
	if again, err := timing.All(t.Context(), devs, list, o); err != nil || len(again) != 0 {
		t.Errorf("known times are measured again: %v, %v", again, err)
	}
}
