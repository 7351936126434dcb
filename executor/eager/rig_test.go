package eager

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"

	"go.uber.org/goleak"

	"github.com/berth-ml/berth/engine/device"
	_ "github.com/berth-ml/berth/engine/device/cpu"
	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/engine/ops"
	"github.com/berth-ml/berth/engine/shape"
)

var bg = context.Background()

// rig is a context on open devices, and the errors that Diagnose was called with.
type rig struct {
	*Context
	t    testing.TB
	devs []device.Device

	mu    sync.Mutex
	diags []*Error
}

// open opens a rig; at the end of the test everything must have been given
// back and every goroutine have ended.
func open(t testing.TB, count int, o ContextOptions) *rig {
	t.Helper()
	before := goleak.IgnoreCurrent()
	devs, err := device.Open("cpu", device.OpenOptions{Count: count, Threads: count, MemoryBytes: 1 << 22})
	if err != nil {
		t.Fatal(err)
	}
	r := &rig{t: t, devs: devs}
	o.Diagnose = func(e *Error) {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.diags = append(r.diags, e)
	}
	if r.Context, err = New(devs, o); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := r.Close(); err != nil {
			t.Errorf("closing the context: %v", err)
		}
		for _, d := range devs {
			if err := d.Close(); err != nil {
				t.Errorf("closing %s: %v", d.ID(), err)
			}
		}
		goleak.VerifyNone(t, before)
	})
	return r
}

// queued makes the rig queue every call, also short ones.
func (r *rig) queued() *rig {
	for _, l := range r.lanes {
		l.compile.short = -1
	}
	return r
}

func (r *rig) told() []*Error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]*Error(nil), r.diags...)
}

// floats uploads a float32 tensor.
func (r *rig) floats(data []float32, dims ...int) Tensor {
	return r.FromBytes(shape.F32(dims...), shape.Bytes(data), "")
}

func (r *rig) ints(data []int32, dims ...int) Tensor {
	return r.FromBytes(shape.I32(dims...), shape.Bytes(data), "")
}

// value reads a tensor and releases it.
func (r *rig) value(x Tensor) []float32 {
	r.t.Helper()
	d, err := x.ToHost(bg)
	if err != nil {
		r.t.Fatal(err)
	}
	if err := x.Release(); err != nil {
		r.t.Fatal(err)
	}
	return d.Data().([]float32)
}

func (r *rig) expect(x Tensor, want ...float32) {
	r.t.Helper()
	got := r.value(x)
	if len(got) != len(want) {
		r.t.Fatalf("got %v, expected %v", got, want)
	}
	for i := range want {
		if got[i] != want[i] {
			r.t.Fatalf("got %v, expected %v", got, want)
		}
	}
}

// fails checks an error's cause and words.
func fails(t testing.TB, err, cause error, words ...string) {
	t.Helper()
	if err == nil || cause != nil && !errors.Is(err, cause) {
		t.Fatalf("error %v, expected its cause to be %v", err, cause)
	}
	for _, w := range words {
		if !strings.Contains(err.Error(), w) {
			t.Fatalf("error %q does not have %q", err, w)
		}
	}
}

// gate is a call that holds the lane until it is opened.
func (r *rig) gate() (open func()) {
	h := hold{make(chan struct{}), make(chan struct{})}
	x := r.One(&h)
	<-h.started
	return func() {
		close(h.opened)
		if err := errors.Join(x.Wait(bg), x.Release()); err != nil {
			r.t.Error(err)
		}
	}
}

// hold is an op that ends when its gate is opened.
type hold struct{ started, opened chan struct{} }

func (h *hold) Kind() string { return "hold" }

func (h *hold) Infer([]shape.Meta) ([]shape.Meta, error) { return []shape.Meta{shape.F32(1)}, nil }

func (h *hold) Grad(*graph.Builder, *graph.Node, []*graph.Value) []*graph.Value { return nil }

func (h *hold) Cost(_, _ []shape.Meta) graph.Cost { return graph.Cost{} }

func (h *hold) Compute(_, _ []graph.Tensor) error {
	close(h.started)
	<-h.opened
	return nil
}

// badGather is a call that fails when it runs.
func (r *rig) badGather() Tensor {
	return r.One(ops.Gather{}, r.floats([]float32{1, 2, 3, 4}, 2, 2), r.ints([]int32{7}, 1))
}
