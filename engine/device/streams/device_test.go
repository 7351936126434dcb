package streams

import (
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/berth-ml/berth/engine/device"
	"github.com/berth-ml/berth/engine/device/devicetest"
	"github.com/berth-ml/berth/engine/device/planner"
	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/engine/ops"
	"github.com/berth-ml/berth/engine/shape"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// An estimate is kept until its graph is compiled, and no longer.
func TestEstimateIsKeptForCompile(t *testing.T) {
	d := counting(t)
	g := devicetest.Segment(t, func(b *graph.Builder) []*graph.Value {
		return []*graph.Value{ops.Neg(b, b.Input("x", shape.F32(4)))}
	})
	if _, err := d.Estimate(g, device.CompileOptions{}); err != nil || len(d.cache.planned) != 1 {
		t.Errorf("%d estimates are kept, %v", len(d.cache.planned), err)
	}
	if _, err := d.Compile(g, device.CompileOptions{}); err != nil || len(d.cache.planned) != 0 {
		t.Errorf("%d estimates are kept for graphs that were compiled, %v", len(d.cache.planned), err)
	}
}

// loading is a program whose compilation waits to be told to end.
type loading struct{ begun, end chan bool }

func (loading) ScratchBytes() int64                { return 0 }
func (loading) Run(*Launch) error                  { return nil }
func (loading) Find(map[string]bool) device.Source { return device.Anew }
func (l loading) Load(func() error) (device.Source, error) {
	close(l.begun)
	<-l.end
	return device.Anew, nil
}

// Close lets a Compile that runs end before it stops the device.
func TestCloseAwaitsCompile(t *testing.T) {
	l, stopped := loading{make(chan bool), make(chan bool)}, make(chan bool)
	d, err := New(Config{Spec: device.Spec{ID: "toy:0", Kind: "toy", MemoryBytes: 1 << 16},
		Bind:     func(*planner.Plan, device.CompileOptions) (Program, error) { return l, nil },
		Supports: func(*graph.Node) error { return nil },
		Stop:     func() error { close(stopped); return nil }})
	if err != nil {
		t.Fatal(err)
	}
	g := devicetest.Segment(t, func(b *graph.Builder) []*graph.Value {
		return []*graph.Value{ops.Neg(b, b.Input("x", shape.F32(4)))}
	})
	var all sync.WaitGroup
	all.Go(func() {
		if _, err := d.Compile(g, device.CompileOptions{}); err != nil {
			t.Error(err)
		}
	})
	<-l.begun
	all.Go(func() {
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	})
	select {
	case <-stopped:
		t.Error("the device was stopped while it compiled")
	case <-time.After(20 * time.Millisecond):
	}
	close(l.end)
	all.Wait()
}

// panicking is a program with a mistake.
type panicking struct{}

func (panicking) ScratchBytes() int64 { return 0 }
func (panicking) Run(*Launch) error   { panic("no such row") }

// A program that panics fails its launch, and not the process.
func TestPanicOfAProgram(t *testing.T) {
	d, err := New(Config{Spec: device.Spec{ID: "toy:0", Kind: "toy", MemoryBytes: 1 << 16},
		Bind:     func(*planner.Plan, device.CompileOptions) (Program, error) { return panicking{}, nil },
		Supports: func(*graph.Node) error { return nil }})
	if err != nil {
		t.Fatal(err)
	}
	x, s, in, out := devicetest.Negation(t, d)
	e, err := s.Launch(x, in, out, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := e.Wait(t.Context()); err == nil || !strings.Contains(err.Error(), "toy:0: test panicked: no such row") {
		t.Errorf("got %v", err)
	}
	for _, err := range []error{in[0].Free(e), out[0].Free(e), s.Close(), d.Close()} {
		if err != nil {
			t.Error(err)
		}
	}
}

// unmappable is host memory that a driver does not give back.
type unmappable struct{}

func (unmappable) Map(n int64) ([]byte, error) { return make([]byte, n), nil }
func (unmappable) Unmap([]byte) error          { return device.ErrLost }

// Host memory that cannot be given back after its last copy is an error of Close.
func TestUnmapFailure(t *testing.T) {
	d, err := New(Config{Spec: device.Spec{ID: "toy:0", Kind: "toy", MemoryBytes: 1 << 16}, Host: unmappable{}})
	if err != nil {
		t.Fatal(err)
	}
	h, err := d.hosts.alloc(8)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(h.pin(), h.Free()); err != nil {
		t.Fatal(err)
	}
	h.unpin()
	if err := d.Close(); !errors.Is(err, device.ErrLost) || !strings.Contains(err.Error(), "toy:0: unmapping a host buffer") {
		t.Errorf("got %v", err)
	}
}
