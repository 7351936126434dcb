package residency_test

import (
	"context"
	"testing"

	"github.com/berth-ml/berth/engine/device"
	_ "github.com/berth-ml/berth/engine/device/cpu"
	_ "github.com/berth-ml/berth/engine/device/null"
	"github.com/berth-ml/berth/engine/shape"
	"github.com/berth-ml/berth/residency"
	"github.com/berth-ml/berth/residency/ledger"
)

// open opens devices of a kind, a compute stream on each, and a manager; all
// are closed, and must be empty, at the end of the test.
func open(t testing.TB, kind string, count int, memory int64) (*residency.Tenant, []device.Device, []device.Stream) {
	t.Helper()
	devs, err := device.Open(kind, device.OpenOptions{Count: count, MemoryBytes: memory})
	if err != nil {
		t.Fatal(err)
	}
	m, err := residency.Open(devs, residency.ManagerOptions{}, residency.TenantOptions{})
	if err != nil {
		t.Fatal(err)
	}
	var streams []device.Stream
	for _, d := range devs {
		s, err := d.NewStream("compute")
		if err != nil {
			t.Fatal(err)
		}
		streams = append(streams, s)
	}
	t.Cleanup(func() {
		for _, s := range streams {
			if err := s.Close(); err != nil {
				t.Error(err)
			}
		}
		if err := m.Close(); err != nil {
			t.Error(err)
		}
		for _, d := range devs {
			if err := d.Close(); err != nil {
				t.Error(err)
			}
		}
	})
	return m, devs, streams
}

// prompt is a stream that is no device.Delayer: what is queued on it waits for copies,
// though it is no launch.
type prompt struct{ device.Stream }

// TestOnDevices moves one tensor all the ways there are on real devices.
func TestOnDevices(t *testing.T) {
	m, _, streams := open(t, "cpu", 2, 1<<12)
	ctx := context.Background()
	data := make([]float32, 512)
	for i := range data {
		data[i] = float32(i)
	}
	var ts []*residency.Tensor
	for _, n := range []string{"a", "b", "c", "d"} {
		x, err := m.Declare(residency.Key{Value: n}, shape.F32(len(data)), device.Weight)
		if err != nil {
			t.Fatal(err)
		}
		if err := m.Fill(x, shape.Bytes(data)); err != nil {
			t.Fatal(err)
		}
		ts = append(ts, x)
	}
	var l residency.Lease
	for i := range 20 { // twice as many as fit: copy-ins, peer copies and spills
		x, d := ts[i%len(ts)], i/len(ts)%2
		if err := m.Acquire(ctx, prompt{streams[d]}, []residency.Need{{Tensor: x, Device: d, Mode: residency.ReadWrite}}, 0, &l); err != nil {
			t.Fatal(err)
		}
		if err := m.Release(&l, streams[d].Record()); err != nil {
			t.Fatal(err)
		}
	}
	if err := m.PullBack(ctx, ledger.Epoch, ts...); err != nil {
		t.Fatal(err)
	}
	for _, x := range ts {
		h, err := m.Host(x)
		if err != nil {
			t.Fatal(err)
		}
		for i, v := range shape.View[float32](h) {
			if v != data[i] {
				t.Fatalf("%s[%d] is %v after its journey", x.Name(), i, v)
			}
		}
	}
	for _, k := range []ledger.Kind{ledger.CopyIn, ledger.Peer, ledger.Spill, ledger.PullBack} {
		if m.Ledger().Total(k).Count == 0 {
			t.Errorf("no %v took place:\n%v", k, m.Ledger())
		}
	}
}

// step makes the calls of a training step, without its work.
type step struct {
	t       testing.TB
	m       *residency.Tenant
	devs    []device.Device
	streams []device.Stream
	batch   *residency.Tensor
	hosts   [2]device.HostBuffer
	tasks   [][]residency.Need
	lease   residency.Lease
	n       int
}

func newStep(t testing.TB, weights int, memory int64) *step {
	m, devs, streams := open(t, "cpu", 1, memory)
	s := &step{t: t, m: m, devs: devs, streams: streams}
	declare := func(v string, u device.Usage) *residency.Tensor {
		x, err := m.Declare(residency.Key{Value: v}, shape.F32(64), u)
		if err != nil {
			t.Fatal(err)
		}
		return x
	}
	s.batch = declare("batch", device.Input)
	for i := range s.hosts {
		h, err := devs[0].AllocHost(256)
		if err != nil {
			t.Fatal(err)
		}
		s.hosts[i] = h
		t.Cleanup(func() {
			if err := h.Free(); err != nil {
				t.Error(err)
			}
		})
	}
	forward := []residency.Need{{Tensor: s.batch, Device: 0, Mode: residency.Read}}
	var update []residency.Need
	for i := range weights {
		w := declare(string(rune('A'+i)), device.Weight)
		if err := m.Fill(w, make([]byte, 256)); err != nil {
			t.Fatal(err)
		}
		forward = append(forward, residency.Need{Tensor: w, Device: 0, Mode: residency.Read})
		update = append(update, residency.Need{Tensor: w, Device: 0, Mode: residency.ReadWrite})
	}
	forward = append(forward, residency.Need{Tensor: declare("activation", device.Activation), Device: 0, Mode: residency.Write})
	s.tasks = [][]residency.Need{forward, update}
	return s
}

// run is one step.
func (s *step) run() {
	ctx := context.Background()
	check := func(err error) {
		if err != nil {
			s.t.Fatal(err)
		}
	}
	check(s.m.Feed(s.batch, s.hosts[s.n%2]))
	for _, needs := range s.tasks {
		check(s.m.Acquire(ctx, s.streams[0], needs, 100, &s.lease))
		check(s.m.Release(&s.lease, s.streams[0].Record()))
	}
	e, ok := s.m.FeedDone(s.batch)
	if !ok {
		s.t.Fatal("the batch was not handed back")
	}
	check(e.Wait(ctx))
	s.wait()
	s.m.Ledger().Step()
	s.n++
}

// wait waits for the tasks so far.
func (s *step) wait() {
	e := s.streams[0].Record()
	if err := e.Wait(context.Background()); err != nil {
		s.t.Fatal(err)
	}
	s.m.Passed(e)
}

// TestSteadyStateAllocatesNothing: neither memory nor copies but the batch.
func TestSteadyStateAllocatesNothing(t *testing.T) {
	s := newStep(t, 8, 1<<20)
	for range 40 {
		s.run()
	}
	if n := testing.AllocsPerRun(200, s.run); n != 0 {
		t.Errorf("%v allocations a step", n)
	}
	st := s.m.Ledger().SteadyState()
	if want := (ledger.Series{Min: 256, Median: 256, Max: 256, Last: 256}); st.CopyIn != want || st.PullBack.Max != 0 {
		t.Errorf("steady state %+v, want the batch in and nothing out", st)
	}
}

// TestDropsAllocateNothing: tensors that live only through a part of a step do
// not cost an allocation each, whether the host waits for the device or not.
func TestDropsAllocateNothing(t *testing.T) {
	for _, waits := range []bool{true, false} {
		memory := int64(1 << 20)
		if !waits { // so little that the batch must take memory still in use
			memory = 1 << 11
		}
		s := newStep(t, 2, memory)
		var ts []*residency.Tensor
		for _, n := range []string{"a", "b", "c"} {
			x, err := s.m.Declare(residency.Key{Value: n}, shape.F32(32), device.Activation)
			if err != nil {
				t.Fatal(err)
			}
			ts = append(ts, x)
		}
		check := func(err error) {
			if err != nil {
				t.Fatal(err)
			}
		}
		ctx := context.Background()
		var needs []residency.Need
		task := func(mode residency.Mode, ts ...*residency.Tensor) {
			needs = needs[:0]
			for _, x := range ts {
				needs = append(needs, residency.Need{Tensor: x, Device: 0, Mode: mode})
			}
			check(s.m.Acquire(ctx, s.streams[0], needs, 100, &s.lease))
			check(s.m.Release(&s.lease, s.streams[0].Record()))
		}
		run := func() {
			check(s.m.Feed(s.batch, s.hosts[0]))
			task(residency.Write, ts...)
			task(residency.Read, s.batch, ts[0], ts[1])
			fed, ok := s.m.FeedDone(s.batch)
			if !ok {
				t.Fatal("the batch was not handed back")
			}
			for _, x := range ts {
				check(s.m.Drop(x))
			}
			check(s.m.Drop(s.batch))
			check(fed.Wait(ctx))
			if waits {
				s.wait()
			}
			s.m.Ledger().Step()
		}
		for range 50 {
			run()
		}
		before := s.devs[0].Stats()
		if n := testing.AllocsPerRun(200, run); n != 0 {
			t.Errorf("waits %v: %v allocations a step", waits, n)
		}
		after := s.devs[0].Stats()
		if after.Peak != before.Peak || after.Live != before.Live {
			t.Errorf("from %+v to %+v", before, after)
		}
	}
}

// TestNullDeviceThroughSteps: nothing comes out, on a device that would refuse.
func TestNullDeviceThroughSteps(t *testing.T) {
	m, _, streams := open(t, "null", 1, 1<<20)
	w, err := m.Declare(residency.Key{Value: "w"}, shape.F32(64), device.Weight)
	if err != nil {
		t.Fatal(err)
	}
	if err := m.Fill(w, make([]byte, 256)); err != nil {
		t.Fatal(err)
	}
	var l residency.Lease
	for range 10 {
		if err := m.Acquire(context.Background(), streams[0], []residency.Need{{Tensor: w, Device: 0, Mode: residency.ReadWrite}}, 0, &l); err != nil {
			t.Fatal(err)
		}
		if err := m.Release(&l, streams[0].Record()); err != nil {
			t.Fatal(err)
		}
	}
	if err := m.PullBack(context.Background(), ledger.Fetch, w); err == nil {
		t.Error("the null device gave bytes back")
	}
	if _, err := m.Host(w); err == nil {
		t.Error("a refused copy-out left bytes on the host")
	}
	if n := m.Ledger().Total(ledger.PullBack).Bytes; n != 0 {
		t.Errorf("%d bytes counted", n)
	}
}

// BenchmarkAcquire is the cost of a lease of 100 resident tensors.
func BenchmarkAcquire(b *testing.B) {
	s := newStep(b, 100, 1<<20)
	s.run()
	needs := s.tasks[1]
	ctx := context.Background()
	b.ReportAllocs()
	for b.Loop() {
		if err := s.m.Acquire(ctx, s.streams[0], needs, 0, &s.lease); err != nil {
			b.Fatal(err)
		}
		if err := s.m.Release(&s.lease, s.streams[0].Record()); err != nil {
			b.Fatal(err)
		}
	}
}
