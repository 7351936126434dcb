package host

import (
	"errors"
	"testing"
	"time"

	"github.com/berth-ml/berth/engine/device"
	"github.com/berth-ml/berth/engine/device/devicetest"
	"github.com/berth-ml/berth/engine/device/streams"
	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/engine/ops"
	"github.com/berth-ml/berth/engine/shape"
)

// hung is a device on which a kernel runs until it is let go.
type hung struct {
	d         *streams.Device
	s, other  device.Stream
	in, out   device.Buffer
	exe       device.Executable
	let       chan struct{}
	event     device.Event // of the launch
	began     chan struct{}
	wroteLast chan struct{}
}

func newHung(t *testing.T) *hung {
	t.Helper()
	h := &hung{let: make(chan struct{}), began: make(chan struct{}, 8), wroteLast: make(chan struct{}, 8)}
	h.d = toy(t, func(_, out [][]byte) error {
		h.began <- struct{}{}
		<-h.let
		clear(out[0]) // into memory that must still be mapped
		h.wroteLast <- struct{}{}
		return nil
	})
	g := devicetest.Segment(t, func(b *graph.Builder) []*graph.Value {
		return []*graph.Value{ops.Neg(b, b.Input("x", shape.F32(4)))}
	})
	var errs [5]error
	h.exe, errs[0] = h.d.Compile(g, device.CompileOptions{})
	h.s, errs[1] = h.d.NewStream("compute")
	h.other, errs[2] = h.d.NewStream("other")
	h.in, errs[3] = h.s.Alloc(shape.F32(4), device.Input)
	h.out, errs[4] = h.s.Alloc(shape.F32(4), device.Grad)
	if err := errors.Join(errs[:]...); err != nil {
		t.Fatal(err)
	}
	before := h.s.Record()
	var err error
	if h.event, err = h.s.Launch(h.exe, []device.Buffer{h.in}, []device.Buffer{h.out}, nil); err != nil {
		t.Fatal(err)
	}
	<-h.began
	if err := before.Wait(t.Context()); err != nil {
		t.Fatal(err)
	}
	return h
}

// A launch runs from its beginning to its end. Waiting for it is no command.
func TestRunning(t *testing.T) {
	h := newHung(t)
	if err := h.other.WaitFor(h.event); err != nil {
		t.Fatal(err)
	}
	c, ok := h.d.Running()
	if !ok || c.Stream != "compute" || c.What != h.exe.Graph().Name || time.Since(c.Since) > time.Minute {
		t.Errorf("%+v, %v runs", c, ok)
	}
	close(h.let)
	if err := h.other.Record().Wait(t.Context()); err != nil {
		t.Fatal(err)
	}
	if c, ok := h.d.Running(); ok {
		t.Errorf("%+v runs, but it has ended", c)
	}
	for _, err := range []error{h.s.Close(), h.other.Close(), h.in.Free(), h.out.Free(), h.d.Close()} {
		if err != nil {
			t.Error(err)
		}
	}
}

// Once a device is given up, all that is queued ends with the cause, all calls
// fail with it, and closing waits for nothing. A kernel that goes on all the same
// still has its memory.
func TestGiveUp(t *testing.T) {
	h := newHung(t)
	ok := h.other.Record()
	if err := errors.Join(h.other.WaitFor(h.event), h.s.WaitFor(device.Event{Queue: &stuck{}, Seq: 1})); err != nil {
		t.Fatal(err)
	}
	cause := errors.New("it hangs")
	waited := make(chan error, 1)
	go func() { waited <- h.event.Wait(t.Context()) }()
	h.d.GiveUp(cause)
	h.d.GiveUp(errors.New("again"))
	if err := <-waited; !errors.Is(err, cause) {
		t.Errorf("the launch: %v", err)
	}
	for name, e := range map[string]device.Event{"launch": h.event, "after it": h.s.Record(), "waiting for it": h.other.Record()} {
		if err := e.Wait(t.Context()); !errors.Is(err, cause) || !e.Done() || !errors.Is(e.Err(), cause) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := ok.Err(); err != nil {
		t.Errorf("before it: %v", err)
	}
	_, err1 := h.s.Alloc(shape.F32(1), device.Input)
	_, err2 := h.d.AllocHost(1)
	_, err3 := h.d.Compile(h.exe.Graph(), device.CompileOptions{})
	_, err4 := h.d.Estimate(h.exe.Graph(), device.CompileOptions{})
	_, err5 := h.d.NewStream("late")
	_, err6 := h.s.Launch(h.exe, []device.Buffer{h.in}, []device.Buffer{h.out}, nil)
	for i, err := range []error{err1, err2, err3, err4, err5, err6, h.s.WaitFor(h.other.Record())} {
		if !errors.Is(err, cause) {
			t.Errorf("call %d: %v", i+1, err)
		}
	}
	if s := h.d.Stats(); s.WrittenOff != 2*device.MemoryUnit {
		t.Errorf("%d bytes are written off", s.WrittenOff)
	}
	if c, ok := h.d.Running(); !ok || c.Stream != "compute" {
		t.Errorf("%+v, %v runs", c, ok)
	}
	for _, err := range []error{h.s.Close(), h.other.Close(), h.in.Free(), h.d.Close()} { // and not out
		if err != nil {
			t.Error(err)
		}
	}
	close(h.let)
	<-h.wroteLast
}

// A device can be given up while its streams are being closed.
func TestGiveUpWhileClosing(t *testing.T) {
	h := newHung(t)
	closed := make(chan error, 1)
	go func() { closed <- h.s.Close() }()
	time.Sleep(time.Millisecond)
	cause := errors.New("it hangs")
	h.d.GiveUp(cause)
	if err := <-closed; !errors.Is(err, cause) {
		t.Errorf("closing: %v", err)
	}
	for _, err := range []error{h.other.Close(), h.d.Close()} {
		if err != nil {
			t.Error(err)
		}
	}
	close(h.let)
	<-h.wroteLast
}

// A copy from a device that was given up fails: a launch that ran then may have written
// half of the source. So does one that waited for that launch.
func TestPeerCopyFromAGivenUpDevice(t *testing.T) {
	h := newHung(t)
	other := toy(t, nil)
	s, err := other.NewStream("peer")
	if err != nil {
		t.Fatal(err)
	}
	to, err := s.Alloc(shape.F32(4), device.Grad)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.CopyPeer(to, h.out); err != nil {
		t.Fatal(err)
	}
	cause := errors.New("it hangs")
	h.d.GiveUp(cause)
	for what, e := range map[string]device.Event{"launch": h.event, "copy": s.Record()} {
		if err := e.Wait(t.Context()); !errors.Is(err, cause) {
			t.Errorf("the %s: %v", what, err)
		}
	}
	for _, err := range []error{s.Close(), to.Free(), other.Close(), h.s.Close(), h.other.Close(), h.in.Free(), h.out.Free(), h.d.Close()} {
		if err != nil {
			t.Error(err)
		}
	}
	close(h.let)
	<-h.wroteLast
}
