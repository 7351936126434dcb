package eager

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"

	"go.uber.org/goleak"
	"gorgonia.org/tensor"

	"github.com/berth-ml/berth/engine/device"
	_ "github.com/berth-ml/berth/engine/device/cpu"
	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/engine/ops"
	"github.com/berth-ml/berth/engine/shape"
)

var bg = context.Background()

// rig is a context on open devices, and what the diagnostic handler was told.
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

func (r *rig) told() []*Error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]*Error(nil), r.diags...)
}

// floats uploads a float32 tensor.
func (r *rig) floats(data []float32, dims ...int) *Tensor {
	return r.FromBytes(shape.F32(dims...), shape.Bytes(data), "")
}

func (r *rig) ints(data []int32, dims ...int) *Tensor {
	return r.FromBytes(shape.I32(dims...), shape.Bytes(data), "")
}

// value reads a tensor and releases it.
func (r *rig) value(x *Tensor) []float32 {
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

func (r *rig) expect(x *Tensor, want ...float32) {
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
	started, opened := make(chan struct{}), make(chan struct{})
	done := r.Call(nil, func([]*tensor.Dense) error {
		close(started)
		<-opened
		return nil
	})
	<-started
	return func() {
		close(opened)
		if err := done.Wait(bg); err != nil {
			r.t.Error(err)
		}
	}
}

// badGather is a call that fails when it runs.
func (r *rig) badGather() *Tensor {
	return r.One(ops.Gather{}, r.floats([]float32{1, 2, 3, 4}, 2, 2), r.ints([]int32{7}, 1))
}

func TestExecute(t *testing.T) {
	r := open(t, 1, ContextOptions{})
	x := r.floats([]float32{1, -2, 3, -4}, 2, 2)
	y := r.One(ops.AddOp, x.Ref(), x)
	if !y.Meta().Equal(shape.F32(2, 2)) || y.Device() != "cpu:0" {
		t.Fatalf("%v on %s", y.Meta(), y.Device())
	}
	if err := y.Wait(bg); err != nil || !y.Done() || y.Err() != nil {
		t.Fatal(err, y.Done(), y.Err())
	}
	r.expect(r.One(ops.Unary{Fn: "relu"}, y), 2, 0, 6, 0)
	r.expect(r.One(ops.Fill{Meta: shape.F32(3), Value: 2}), 2, 2, 2)
	r.expect(r.FromHost(tensor.New(tensor.WithShape(2), tensor.WithBacking([]float32{5, 6})), ""), 5, 6)
	r.expect(r.floats([]float32{9}), 9)
	r.expect(r.One(ops.Reshape{Shape: shape.Of(4)}, r.floats([]float32{1, 2, 3, 4}, 2, 2)), 1, 2, 3, 4)
}

// TestOutputs checks ops with several outputs and the first only.
func TestOutputs(t *testing.T) {
	r := open(t, 1, ContextOptions{})
	x := r.floats([]float32{1, 5, 2, 3}, 1, 1, 2, 2)
	out := r.Execute(ops.MaxPool2D{Kernel: 2, Stride: 2}, x.Ref())
	if len(out) != 2 {
		t.Fatalf("%d outputs", len(out))
	}
	r.expect(r.One(ops.MaxPool2DGrad{H: 2, W: 2}, out[1], out[0]), 0, 5, 0, 0)
	r.expect(r.One(ops.MaxPool2D{Kernel: 2, Stride: 2}, x), 5)
}

// TestMetadataIsPartOfTheKey calls one op with many shapes, types and numbers
// of inputs.
func TestMetadataIsPartOfTheKey(t *testing.T) {
	r := open(t, 1, ContextOptions{})
	for range 2 {
		for n := 1; n < 5; n++ {
			data := []float32{1, 2, 3, 4}[:n]
			r.expect(r.One(ops.SumSquares{}, r.floats(data, n)), []float32{1, 5, 14, 30}[n-1])
			parts := make([]*Tensor, 2*n)
			for i := range parts {
				parts[i] = r.floats([]float32{float32(i)}, 1)
			}
			r.expect(r.One(ops.Concat{}, parts...), []float32{0, 1, 2, 3, 4, 5, 6, 7}[:2*n]...)
		}
	}
	// Metadata that differ in the type alone, and in the rank alone.
	fails(t, r.One(ops.SumSquares{}, r.ints([]int32{1, 2}, 2)).Err(), graph.ErrShape)
	x := r.One(ops.Unary{Fn: "neg"}, r.floats([]float32{1, 2}, 1, 2))
	if !x.Meta().Equal(shape.F32(1, 2)) {
		t.Error(x.Meta())
	}
	r.expect(x, -1, -2)
	r.expect(r.One(ops.Unary{Fn: "neg"}, r.floats([]float32{1, 2}, 2)), -1, -2)
}

func TestAttributesAreCachedByPrint(t *testing.T) {
	r := open(t, 1, ContextOptions{})
	x := r.floats([]float32{1, 2}, 2)
	for range 3 {
		for _, scale := range []float64{2, 3} {
			r.expect(r.One(ops.Affine{Scale: scale}, x.Ref()), float32(scale), float32(2*scale))
		}
	}
	r.expect(r.One(ops.Affine{Scale: 2}, x), 2, 4)
	if s := r.devs[0].Stats(); s.CompileMisses != 3 || s.CompileHits != 0 {
		t.Errorf("%d compilations, %d found: expected one per attribute, and one that donates", s.CompileMisses, s.CompileHits)
	}
}

func TestShapeErrorAtTheCall(t *testing.T) {
	r := open(t, 1, ContextOptions{})
	open := r.gate() // nothing needs to run for the error to be known
	x, y := r.floats([]float32{1, 2}, 2), r.floats([]float32{1, 2, 3}, 3)
	z := r.One(ops.AddOp, x, y)
	fails(t, z.Err(), graph.ErrShape, "eager_test.go:", "add: ", "do not broadcast")
	if !z.Done() || z.Device() != "" {
		t.Error("the handle of a failed call must be known to have failed")
	}
	// The arguments were consumed all the same, and the error goes on unchanged.
	fails(t, r.One(ops.Unary{Fn: "neg"}, x).Err(), ErrConsumed)
	if e := r.Execute(ops.AddOp, z, z)[1].Err(); e != z.Err() {
		t.Errorf("%v, expected %v", e, z.Err())
	}
	_, err := z.ToHost(bg)
	fails(t, err, graph.ErrShape)
	open()
	if d := r.told(); len(d) != 2 || d[0] != z.Err() {
		t.Errorf("diagnostics %v", d)
	}
	for _, bad := range []*Tensor{
		r.One(ops.AddOp, nil, nil),
		r.FromHost(nil, ""),
		r.FromHost(tensor.New(tensor.WithShape(1), tensor.WithBacking([]float32{1})), "cpu:9"),
		r.FromBytes(shape.F32(2), make([]byte, 7), ""),
		r.One(ops.Unary{Fn: "nothing"}),
	} {
		fails(t, bad.Err(), nil, "eager_test.go:")
	}
}

func TestConsumed(t *testing.T) {
	r := open(t, 1, ContextOptions{})
	x := r.floats([]float32{1, 2}, 2)
	r.expect(r.One(ops.Unary{Fn: "neg"}, x.Ref()), -1, -2)
	r.expect(r.One(ops.Unary{Fn: "neg"}, x), -1, -2)
	fails(t, r.One(ops.Unary{Fn: "neg"}, x).Err(), ErrConsumed, "argument 0", "x.Ref()", "eager_test.go:")
	fails(t, x.Ref().Err(), ErrConsumed, "eager_test.go:")
	fails(t, x.Release(), ErrConsumed, "eager_test.go:")
	_, err := x.ToHost(bg)
	fails(t, err, ErrConsumed, "eager_test.go:")
	fails(t, x.CopyTo("cpu:0").Err(), ErrConsumed)
	y := r.floats([]float32{3}, 1)
	fails(t, r.One(ops.AddOp, y, y).Err(), ErrConsumed, "argument 1")
}

func TestPoisonOnlyDependents(t *testing.T) {
	r := open(t, 1, ContextOptions{})
	open := r.gate() // everything is queued before the failure is known
	x := r.floats([]float32{1, 2}, 1, 2)
	bad := r.badGather()
	child := r.One(ops.Unary{Fn: "neg"}, bad.Ref())
	mixed := r.One(ops.AddOp, child, x.Ref())
	good := r.One(ops.AddOp, x.Ref(), x)
	chain := r.Call(nil, func([]*tensor.Dense) error { t.Error("called with a failed argument"); return nil }, bad.Ref())
	after := r.One(ops.Unary{Fn: "neg"}, good.Ref())
	open()
	r.expect(good, 2, 4)
	r.expect(after, -2, -4)
	fails(t, bad.Wait(bg), nil, "eager_test.go:", "gather: cpu:0:", "token 7")
	for _, err := range []error{child.Wait(bg), mixed.Wait(bg), chain.Wait(bg)} {
		if err != bad.Err() {
			t.Errorf("%v, expected what the cause failed with", err)
		}
	}
	if !mixed.Meta().Equal(shape.F32(1, 2)) {
		t.Errorf("metadata %v of a tensor that failed later", mixed.Meta())
	}
	fails(t, r.One(ops.AddOp, mixed, bad).Wait(bg), nil, "token 7")
	if d := r.told(); len(d) != 1 || d[0] != bad.Err() {
		t.Errorf("diagnostics %v: expected one", d)
	}
}

// TestOutOfMemory checks that memory is taken at launch, that a failure to get
// it is the op's, and that it works again when there is room.
func TestOutOfMemory(t *testing.T) {
	r := open(t, 1, ContextOptions{})
	big := ops.Fill{Meta: shape.F32(1 << 18), Value: 1} // a quarter of the budget
	held := []*Tensor{r.One(big), r.One(big), r.One(big)}
	bad := r.One(ops.Fill{Meta: shape.F32(1 << 19), Value: 1})
	fails(t, bad.Wait(bg), device.ErrOutOfMemory, "needed", "fill: ")
	for _, x := range held {
		if err := x.Release(); err != nil {
			t.Fatal(err)
		}
	}
	// A chain that is queued faster than it runs: what its launches hold comes
	// back when they end, and the next ones wait for that.
	x := r.One(ops.Fill{Meta: shape.F32(512, 512), Value: 1})
	open := r.gate()
	for range 20 {
		x = r.One(ops.Transpose{Perm: []int{1, 0}}, x)
	}
	open()
	if v := r.value(x); v[0] != 1 {
		t.Error(v[0])
	}
	if d := r.told(); len(d) != 1 {
		t.Errorf("diagnostics %v", d)
	}
}

func TestDonation(t *testing.T) {
	r := open(t, 1, ContextOptions{})
	x := r.floats(make([]float32, 1<<16), 1<<16)
	if err := x.Wait(bg); err != nil {
		t.Fatal(err)
	}
	start := r.devs[0].Stats()
	const n = 50
	for range n {
		x = r.One(ops.Affine{Scale: 1, Shift: 1}, x)
	}
	if err := x.Wait(bg); err != nil {
		t.Fatal(err)
	}
	s := r.devs[0].Stats()
	if s.Allocs != start.Allocs || s.PeakBy[device.Activation] != 1<<18 || s.Launches-start.Launches != n {
		t.Errorf("%d allocations, peak %d, %d launches", s.Allocs-start.Allocs, s.PeakBy[device.Activation], s.Launches-start.Launches)
	}
	// With another reference, no donation: the old contents stay.
	y := r.One(ops.Affine{Scale: 2}, x.Ref())
	if v := r.value(x); v[0] != n {
		t.Errorf("the tensor was overwritten: %v", v[0])
	}
	if v := r.value(y); v[0] != 2*n {
		t.Error(v[0])
	}
	if s := r.devs[0].Stats(); s.Allocs-start.Allocs != 1 || s.LiveBy[device.Activation] != 0 {
		t.Errorf("%d allocations, %d bytes live", s.Allocs-start.Allocs, s.LiveBy[device.Activation])
	}
	// A stretched operand cannot give its memory.
	r.expect(r.One(ops.AddOp, r.floats([]float32{1}, 1), r.floats([]float32{1, 2}, 2)), 2, 3)
}

func TestCancelAndRestart(t *testing.T) {
	r := open(t, 1, ContextOptions{})
	x := r.floats([]float32{1, 2}, 2)
	if err := x.Wait(bg); err != nil {
		t.Fatal(err)
	}
	open := r.gate()
	pending := r.One(ops.Unary{Fn: "neg"}, x.Ref())
	upload := r.floats([]float32{1}, 1)
	cause := errors.New("the user left")
	r.Cancel(cause)
	r.Cancel(errors.New("again"))
	if now := r.One(ops.Unary{Fn: "neg"}, x.Ref()); !now.Done() || !errors.Is(now.Err(), cause) {
		t.Errorf("a call in a canceled context: %v", now.Err())
	}
	r.Restart() // what was called before stays canceled
	again := r.One(ops.Unary{Fn: "neg"}, x.Ref())
	open()
	fails(t, pending.Wait(bg), ErrCanceled, "the user left", "eager_test.go:")
	fails(t, upload.Wait(bg), cause)
	r.expect(again, -1, -2)
	r.expect(x, 1, 2)
	r.Cancel(nil)
	fails(t, r.floats([]float32{1}, 1).Err(), ErrCanceled)
	r.Restart()
	r.Restart()
	r.expect(r.floats([]float32{1}, 1), 1)
	if d := r.told(); len(d) != 0 {
		t.Errorf("diagnostics %v: canceled calls are no mistakes", d)
	}
}

func TestChain(t *testing.T) {
	r := open(t, 2, ContextOptions{})
	var got []float32
	note := func(ds []*tensor.Dense) error {
		got = append(got, ds[0].Data().([]float32)...)
		return nil
	}
	chain := new(Chain)
	for i := range 6 { // the chain orders calls on different devices
		x := r.FromBytes(shape.F32(1), shape.Bytes([]float32{float32(i)}), r.devs[i%2].ID())
		chain = r.Call(chain, note, x)
	}
	if err := chain.Wait(bg); err != nil {
		t.Fatal(err)
	}
	for i, v := range got {
		if v != float32(i) {
			t.Fatalf("order %v", got)
		}
	}
	// A failure goes along the chain, through ops too.
	broken := errors.New("disk full")
	chain = r.Call(chain, func([]*tensor.Dense) error { return broken })
	inv := &Invocation{Op: ops.Fill{Meta: shape.F32(1)}, Chain: chain, Loc: At(graph.Pos{File: "script", Line: 3})}
	r.Run(inv)
	fails(t, inv.Results[0].Wait(bg), broken, "eager_test.go:", "call: ")
	chain = r.Call(inv.Chain, note, r.floats([]float32{1}, 1))
	fails(t, chain.Wait(bg), broken)
	if chain.Err() == nil || len(got) != 6 {
		t.Error("a call ran after the chain had failed")
	}
	// A call that is wrong breaks its chain at once.
	inv = &Invocation{Op: ops.AddOp, Chain: new(Chain), Loc: At(graph.Pos{File: "script", Line: 4})}
	r.Run(inv)
	fails(t, inv.Chain.Err(), graph.ErrShape, "script:4: add")
	fails(t, r.Call(inv.Chain, note, r.floats([]float32{1}, 1)).Wait(bg), graph.ErrShape)
}

func TestDevices(t *testing.T) {
	r := open(t, 2, ContextOptions{})
	x := r.floats([]float32{1, 2}, 2)
	y := x.CopyTo("cpu:1")
	if y.Device() != "cpu:1" {
		t.Error(y.Device())
	}
	fails(t, r.One(ops.AddOp, x.Ref(), y.Ref()).Err(), ErrDevice, "argument 1", "CopyTo")
	r.expect(r.One(ops.Unary{Fn: "neg"}, y), -1, -2)
	fails(t, x.CopyTo("cpu:7").Err(), nil, "no device")
	bad := r.badGather()
	fails(t, bad.CopyTo("cpu:1").Wait(bg), nil, "token 7")
	inv := &Invocation{Op: ops.Fill{Meta: shape.F32(1), Value: 3}, Device: "cpu:1"}
	r.Run(inv)
	if inv.Results[0].Device() != "cpu:1" {
		t.Error(inv.Results[0].Device())
	}
	r.expect(inv.Results[0], 3)
	r.expect(x, 1, 2)
}

// composite is a handler that expands one op and passes on the others.
type composite struct{ next Handler }

func (h composite) Execute(inv *Invocation) {
	if inv.Op.Kind() != "lerp" || len(inv.Args) != 2 {
		h.next.Execute(inv)
		return
	}
	c, a, b := inv.Context(), inv.Args[0], inv.Args[1]
	d := c.One(ops.Binary{Fn: "sub"}, b, a.Ref())
	inv.Results = c.Execute(ops.AddOp, a, c.One(ops.Affine{Scale: inv.Op.(ops.Lerp).T}, d))
}

func TestHandlers(t *testing.T) {
	var log strings.Builder
	r := open(t, 1, ContextOptions{Handler: func(devices Handler) Handler { return composite{Logging(devices, &log)} }})
	r.expect(r.One(ops.Lerp{T: 0.5}, r.floats([]float32{1, 2}, 2), r.floats([]float32{3, 6}, 2)), 2, 4)
	r.One(ops.AddOp, r.floats([]float32{1}, 1), nil)
	for _, want := range []string{
		"sub{Fn:sub}(f32[2], f32[2]) -> f32[2] on cpu:0\n",
		"affine{Scale:0.5 Shift:0}(f32[2]) -> f32[2] on cpu:0\n",
		"add{Fn:add}(f32[2], f32[2]) -> f32[2] on cpu:0\n",
		"add{Fn:add}(f32[1], nil) -> error: ",
		"argument 1 is nil\n",
	} {
		if !strings.Contains(log.String(), want) {
			t.Errorf("the log does not have %q:\n%s", want, log.String())
		}
	}
}

func TestWaitIsBounded(t *testing.T) {
	r := open(t, 1, ContextOptions{})
	open := r.gate()
	x := r.floats([]float32{1}, 1)
	ctx, cancel := context.WithCancel(bg)
	cancel()
	if err := x.Wait(ctx); err != context.Canceled {
		t.Error(err)
	}
	if _, err := x.ToHost(ctx); err != context.Canceled {
		t.Error(err)
	}
	if x.Done() || x.Err() != nil {
		t.Error("done while the lane is held")
	}
	if err := x.Release(); err != nil { // while it is pending
		t.Error(err)
	}
	open()
}

func TestClose(t *testing.T) {
	devs, err := device.Open("cpu", device.OpenOptions{Count: 1, Threads: 1, MemoryBytes: 1 << 20})
	if err != nil {
		t.Fatal(err)
	}
	c, err := New(devs, ContextOptions{})
	if err != nil {
		t.Fatal(err)
	}
	x := c.FromBytes(shape.F32(2), make([]byte, 8), "")
	fails(t, c.Close(), nil, "1 tensors with 8 bytes", "Release")
	fails(t, c.Close(), ErrClosed)
	fails(t, c.One(ops.Unary{Fn: "neg"}, x.Ref()).Err(), ErrClosed)
	c.Restart()
	fails(t, c.One(ops.Unary{Fn: "neg"}, x.Ref()).Err(), ErrClosed)
	if err := x.Release(); err != nil {
		t.Error(err)
	}
	if err := devs[0].Close(); err != nil {
		t.Errorf("closing the device: %v", err)
	}
	_, err = New(devs, ContextOptions{})
	fails(t, err, device.ErrClosed)
	_, err = New(nil, ContextOptions{})
	fails(t, err, nil, "at least one device")
}
