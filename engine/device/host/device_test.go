package host

import (
	"context"
	"errors"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/berth-ml/berth/engine/device"
	"github.com/berth-ml/berth/engine/device/devicetest"
	"github.com/berth-ml/berth/engine/device/streams"
	"github.com/berth-ml/berth/engine/fuse"
	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/engine/ops"
	"github.com/berth-ml/berth/engine/shape"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// kernelFunc is a kernel made of a function.
type kernelFunc func(in, out [][]byte) error

func (kernelFunc) ScratchBytes() int64                    { return 0 }
func (k kernelFunc) Run(in, out [][]byte, _ []byte) error { return k(in, out) }

// toy opens a device on which every node is k.
func toy(t *testing.T, k kernelFunc) *streams.Device {
	t.Helper()
	d, err := New(Config{
		Spec: device.Spec{ID: "toy:0", Kind: "toy", MemoryBytes: 1 << 16},
		Bind: func(*fuse.Cluster) (Kernel, error) { return k, nil },
	})
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// A kind without kernels of several ops gets clusters of one.
func TestAlone(t *testing.T) {
	g := devicetest.Segment(t, func(b *graph.Builder) []*graph.Value {
		return []*graph.Value{ops.Relu(b, ops.Neg(b, b.Input("x", shape.F32(4))))}
	})
	for alone, want := range map[bool]int{false: 1, true: 2} {
		kernels := 0
		d, err := New(Config{
			Spec: device.Spec{ID: "toy:0", Kind: "toy", MemoryBytes: 1 << 16}, Alone: alone,
			Bind: func(*fuse.Cluster) (Kernel, error) { kernels++; return kernelFunc(nil), nil },
		})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := d.Compile(g, device.CompileOptions{}); err != nil || kernels != want {
			t.Errorf("alone %t: %d kernels, %v, expected %d", alone, kernels, err, want)
		}
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	}
}

// launchOnce runs a graph of one node and returns its failure.
func launchOnce(t *testing.T, d *streams.Device) error {
	t.Helper()
	x, s, in, out := devicetest.Negation(t, d)
	e, err := s.Launch(x, in, out, nil)
	if err != nil {
		t.Fatal(err)
	}
	failure := e.Wait(context.Background())
	for _, err := range []error{s.Close(), in[0].Free(), out[0].Free(), d.Close()} {
		if err != nil {
			t.Error(err)
		}
	}
	return failure
}

// mine is host memory of a caller's own.
type mine struct{ data []byte }

func (m *mine) Bytes() []byte { return m.data }
func (m *mine) Free() error   { m.data = nil; return nil }

// stuck is a queue whose operations end when its channel is closed.
type stuck struct{ end chan struct{} }

func (*stuck) Finished(uint64) bool { return false }
func (*stuck) Err(uint64) error     { return nil }
func (q *stuck) Await(context.Context, uint64) error {
	<-q.end
	return nil
}

// TestEstimatePlansOnce estimates and compiles equal graphs: kernels are bound
// once, and only Compile counts hits and misses.
func TestEstimatePlansOnce(t *testing.T) {
	binds := 0
	d, err := New(Config{
		Spec: device.Spec{ID: "toy:0", Kind: "toy", MemoryBytes: 1 << 16},
		Bind: func(*fuse.Cluster) (Kernel, error) { binds++; return kernelFunc(nil), nil },
	})
	if err != nil {
		t.Fatal(err)
	}
	equal := func() *graph.Graph {
		return devicetest.Segment(t, func(b *graph.Builder) []*graph.Value {
			return []*graph.Value{ops.Neg(b, b.Input("x", shape.F32(4)))}
		})
	}
	for range 2 {
		if m, err := d.Estimate(equal(), device.CompileOptions{}); err != nil || m.Peak() != 32 {
			t.Errorf("the estimate is %+v, %v", m, err)
		}
	}
	for range 2 {
		if _, err := d.Compile(equal(), device.CompileOptions{}); err != nil {
			t.Error(err)
		}
	}
	if s := d.Stats(); binds != 1 || s.CompileMisses != 1 || s.CompileHits != 1 {
		t.Errorf("%d kernels were bound, with %d misses and %d hits of Compile: each should be 1", binds, s.CompileMisses, s.CompileHits)
	}
	if err := d.Close(); err != nil {
		t.Error(err)
	}
}

// TestCloseWhileQueueing closes a device under a goroutine that queues: every
// call ends, with ErrClosed from some point on, and so does every event.
func TestCloseWhileQueueing(t *testing.T) {
	d := toy(t, nil)
	s, err := d.NewStream("s")
	if err != nil {
		t.Fatal(err)
	}
	b, err := s.Alloc(shape.F32(1), device.Input)
	if err != nil {
		t.Fatal(err)
	}
	started, ended := make(chan struct{}), make(chan error)
	go func() {
		h := &mine{make([]byte, 4)}
		for i := 0; ; i++ {
			if err := s.CopyIn(b, h); err != nil {
				ended <- err
				return
			}
			if i == 100 {
				close(started)
			}
		}
	}()
	<-started
	if err := d.Close(); err == nil || !strings.Contains(err.Error(), `"s" was still open`) {
		t.Errorf("closing with an open stream: %v", err)
	}
	if err := <-ended; !strings.Contains(err.Error(), "closed") && !strings.Contains(err.Error(), "deleted") {
		t.Errorf("queueing on a closed device: %v", err)
	}
	if err := b.Ready().Wait(context.Background()); err != nil {
		t.Error(err)
	}
}

// TestCompileStops ends compiling at each question in turn whether to stop.
func TestCompileStops(t *testing.T) {
	d := toy(t, func([][]byte, [][]byte) error { return nil })
	defer d.Close()
	g := devicetest.Segment(t, func(b *graph.Builder) []*graph.Value {
		x := b.Input("x", shape.F32(4))
		w := b.Input("w", shape.F32(4, 4))
		for range 1000 {
			x = ops.Tanh(b, ops.Add(b, x, ops.MatMulOf(b, ops.ReshapeTo(b, x, 1, 4), w, false, false)))
			x = ops.ReshapeTo(b, x, 4)
		}
		return []*graph.Value{x, ops.Neg(b, w)}
	})
	stopped, asked := errors.New("stopped"), 0
	for err := stopped; err != nil; asked++ {
		left := asked
		_, err = d.Compile(g, device.CompileOptions{Alias: []int{-1, 1}, Stop: func() error {
			if left--; left < 0 {
				return stopped
			}
			return nil
		}})
		if err != nil && !errors.Is(err, stopped) {
			t.Fatal(err)
		}
	}
	if asked < 50 {
		t.Errorf("compiling 5000 nodes asks %d times whether to stop, which is seldom", asked)
	}
}

// A budget counts in whole units: fewer bytes than one are refused, and do not
// mean unlimited memory.
func TestSmallBudgets(t *testing.T) {
	for budget, usable := range map[int64]int64{0: 0, 1: 0, 63: 0, 64: 64, 127: 64, 128: 128} {
		d, err := New(Config{Spec: device.Spec{ID: "toy:0", Kind: "toy", MemoryBytes: budget}})
		if usable == 0 {
			if err == nil || !strings.Contains(err.Error(), "at least 64 are needed") {
				t.Errorf("%d bytes: %v", budget, err)
			}
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		if got := d.Spec().MemoryBytes; got != usable {
			t.Errorf("of %d bytes it has %d, want %d", budget, got, usable)
		}
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	}
}
