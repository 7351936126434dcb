package eager

import (
	"errors"
	"testing"

	"gorgonia.org/tensor"

	"github.com/berth-ml/berth/engine/device"
	"github.com/berth-ml/berth/engine/ops"
	"github.com/berth-ml/berth/engine/shape"
)

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

// TestStored: bfloat16 and int8 by block are storage, which a cast widens and a lookup reads.
func TestStored(t *testing.T) {
	r := open(t, 1, ContextOptions{})
	x := r.FromBytes(shape.BF16(2, 1), []byte{0x80, 0x3f, 0x40, 0xc0}, "")
	r.expect(r.One(ops.Gather{}, x.Ref(), r.FromBytes(shape.I32(1), []byte{1, 0, 0, 0}, "")), -3)
	r.expect(r.One(ops.Cast{To: "f32"}, x), 1, -3)
	x = r.FromBytes(shape.I8Block(2, 1), []byte{0x80, 0x3f, 127, 0x00, 0x3f, 0xff}, "")
	r.expect(r.One(ops.Gather{}, x.Ref(), r.FromBytes(shape.I32(1), []byte{1, 0, 0, 0}, "")), -0.5)
	r.expect(r.One(ops.Cast{To: "f32"}, x), 127, -0.5)
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

func TestCancelAndRestart(t *testing.T) {
	r := open(t, 1, ContextOptions{})
	x := r.floats([]float32{1, 2}, 2)
	if err := x.Wait(bg); err != nil {
		t.Fatal(err)
	}
	open := r.gate()
	pending := r.One(ops.Unary{Fn: "neg"}, x.Ref())
	copied := pending.CopyTo("cpu:0")
	upload := r.floats([]float32{1}, 1) // waits for no call
	cause := errors.New("the user left")
	r.Cancel(cause)
	r.Cancel(errors.New("again"))
	if now := r.One(ops.Unary{Fn: "neg"}, x.Ref()); !now.Done() || !errors.Is(now.Err(), cause) {
		t.Errorf("a call in a canceled context: %v", now.Err())
	}
	r.Restart() // earlier calls stay canceled
	again := r.One(ops.Unary{Fn: "neg"}, x.Ref())
	open()
	fails(t, pending.Wait(bg), ErrCanceled, "the user left", "context_test.go:")
	fails(t, copied.Wait(bg), cause)
	r.expect(upload, 1)
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
	fails(t, c.Close(), nil, "1 tensor is still held, with 8 bytes", "Release")
	if err := c.Close(); err != nil {
		t.Errorf("closed twice: %v", err)
	}
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

// The device forgets the executables of a context that is closed, and a context those of
// a program that makes new ops without end.
func TestExecutablesAreReleased(t *testing.T) {
	devs, err := device.Open("cpu", device.OpenOptions{Count: 1, Threads: 1, MemoryBytes: 1 << 20})
	if err != nil {
		t.Fatal(err)
	}
	c, err := New(devs, ContextOptions{})
	if err != nil {
		t.Fatal(err)
	}
	x := c.FromBytes(shape.F32(1), shape.Bytes([]float32{1}), "")
	const n = 2*cacheSize + 10
	for i := range n {
		x = c.One(ops.Affine{Scale: 1, Shift: float64(i)}, x)
	}
	d, err := x.ToHost(bg)
	if want := float32(1 + n*(n-1)/2); err != nil || d.Data().([]float32)[0] != want {
		t.Errorf("got %v, expected %v; %v", d, want, err)
	}
	if n := devs[0].Stats().Executables; n > cacheSize {
		t.Errorf("the device has %d executables, the cache has room for %d", n, cacheSize)
	}
	if err := errors.Join(x.Release(), c.Close()); err != nil {
		t.Error(err)
	}
	if n := devs[0].Stats().Executables; n != 0 {
		t.Errorf("%d executables are left", n)
	}
	if err := devs[0].Close(); err != nil {
		t.Error(err)
	}
}
