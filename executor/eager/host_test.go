package eager

import (
	"errors"
	"slices"
	"sync"
	"testing"

	"gorgonia.org/tensor"

	"github.com/berth-ml/berth/engine/device"
	"github.com/berth-ml/berth/engine/ops"
	"github.com/berth-ml/berth/engine/shape"
	"github.com/berth-ml/berth/residency/ledger"
)

// While functions have taken all slots, their own calls fail at once, and Cancel ends the
// waiting of others.
func TestCallsWithinCallsThatAreFull(t *testing.T) {
	r := open(t, 1, ContextOptions{})
	var began, called sync.WaitGroup
	began.Add(laneSize)
	called.Add(laneSize)
	end := make(chan struct{})
	x := r.floats([]float32{1}, 1)
	var chains []*Chain
	for i := range laneSize {
		chains = append(chains, r.Call(nil, func([]*tensor.Dense) error {
			began.Done()
			began.Wait()
			var err error
			if i%2 == 0 {
				err = r.Call(nil, func([]*tensor.Dense) error { return nil }).Err()
			} else {
				err = x.CopyTo("cpu:0").Err()
			}
			called.Done()
			called.Wait()
			<-end
			if !errors.Is(err, ErrBusy) {
				return errors.Join(errors.New("there was room for a call within a function"), err)
			}
			return nil
		}))
	}
	called.Wait()
	waiting := make(chan *Chain)
	go func() { waiting <- r.Call(nil, func([]*tensor.Dense) error { return nil }) }()
	r.Cancel(nil)
	fails(t, (<-waiting).Err(), ErrCanceled)
	r.Restart()
	close(end)
	for _, c := range chains {
		if err := c.Wait(bg); err != nil {
			t.Fatal(err)
		}
	}
	within := make(chan error, 1)
	err := r.Call(nil, func([]*tensor.Dense) error {
		within <- r.Call(nil, func([]*tensor.Dense) error { return nil }).Wait(bg)
		return nil
	}).Wait(bg)
	if err = errors.Join(err, <-within); err != nil {
		t.Errorf("with room for a call within a function: %v", err)
	}
	r.expect(x, 1)
}

// A function that a full lane waits for makes no call that would wait for the lane.
func TestOpsWithinCallsThatAreFull(t *testing.T) {
	r := open(t, 1, ContextOptions{}).queued()
	x := r.floats([]float32{1}, 1)
	full, refused := make(chan struct{}), make(chan error, 1)
	saved := r.Call(nil, func([]*tensor.Dense) error {
		<-full
		refused <- r.One(ops.AddOp, x.Ref(), x.Ref()).Err()
		return nil
	})
	first := &Invocation{Op: ops.AddOp, Args: []Tensor{x.Ref(), x.Ref()}, Chain: saved}
	r.Run(first)
	list := slices.Clone(first.Results)
	for range laneSize {
		list = append(list, r.One(ops.AddOp, x.Ref(), x.Ref()))
	}
	close(full)
	fails(t, <-refused, ErrBusy, "host_test.go:", "add: ", "1024 calls wait for cpu:0")
	for _, y := range list {
		r.expect(y, 2)
	}
	r.expect(x, 1)
}

// A host tensor is copied once in each direction: residency takes no host memory for it.
func TestHostTensors(t *testing.T) {
	r := open(t, 2, ContextOptions{})
	h, err := r.AllocHost(shape.F32(2, 2), "cpu:1")
	if err != nil {
		t.Fatal(err)
	}
	d, err := h.Dense()
	if err != nil {
		t.Fatal(err)
	}
	peak := r.tenant.HostMemory().Peak
	for i := range 3 {
		if err := h.Wait(bg); err != nil {
			t.Fatal(err)
		}
		copy(d.Float32s(), []float32{1, 2, 3, float32(i)})
		x := h.Upload()
		if x.Device() != "cpu:1" || !x.Meta().Equal(h.Meta()) {
			t.Errorf("uploaded %v to %s", x.Meta(), x.Device())
		}
		y := r.One(ops.Unary{Fn: "neg"}, x)
		if err := h.Fetch(bg, y); err != nil {
			t.Fatal(err)
		}
		if got := d.Float32s(); !slices.Equal(got, []float32{-1, -2, -3, -float32(i)}) {
			t.Errorf("fetched %v", got)
		}
		if err := y.Release(); err != nil {
			t.Error(err)
		}
	}
	if got := r.tenant.HostMemory().Peak; got != peak {
		t.Errorf("%d bytes of host memory were taken in between", got-peak)
	}
	if got := r.Ledger().OfReason(ledger.Fetch); got.Count != 3 || got.Bytes != 3*16 {
		t.Errorf("the ledger has %+v", got)
	}

	other := r.floats([]float32{1}, 1)
	fails(t, h.Fetch(bg, other), nil, "host_test.go:", "the tensor is f32[1], the host tensor f32[2,2]")
	gone := r.FromBytes(shape.F32(2, 2), make([]byte, 16), "")
	if err := errors.Join(other.Release(), gone.Release()); err != nil {
		t.Error(err)
	}
	fails(t, h.Fetch(bg, gone), ErrConsumed)
	fails(t, h.Fetch(bg, Tensor{}), errZero)
	_, err = r.AllocHost(shape.F32(2, -2), "")
	fails(t, err, nil, "host_test.go:", "negative dimension")
	_, err = r.AllocHost(shape.F32(2), "cpu:7")
	fails(t, err, nil, "has no device \"cpu:7\"")
	if err := h.Free(); err != nil {
		t.Fatal(err)
	}
	fails(t, h.Free(), device.ErrDeleted)
	fails(t, h.Upload().Err(), device.ErrDeleted, "host_test.go:")
	x := r.FromBytes(shape.F32(2, 2), make([]byte, 16), "")
	fails(t, h.Fetch(bg, x), device.ErrDeleted)
	if h.Bytes() != nil {
		t.Error("freed memory is given")
	}
	if err := x.Release(); err != nil {
		t.Error(err)
	}
}

// What AllocHost did not make is refused.
func TestHostTensorsNotOpened(t *testing.T) {
	r := open(t, 1, ContextOptions{})
	x := r.floats([]float32{1}, 1)
	for _, h := range []*HostTensor{nil, {}} {
		_, err := h.Dense()
		for _, err := range []error{err, h.Upload().Err(), h.Fetch(bg, x), h.Wait(bg), h.Free()} {
			fails(t, err, nil, "OpByOp.AllocHost")
		}
		if h.Bytes() != nil || !h.Meta().Equal(shape.Meta{}) {
			t.Error("there is memory")
		}
	}
	if err := x.Release(); err != nil {
		t.Error(err)
	}
}

// Where the device has no room, the contents are safe all the same, and the memory is the program's again.
func TestHostTensorsWithoutRoom(t *testing.T) {
	r := open(t, 1, ContextOptions{})
	const n = 3 << 18 // of 4 MiB, so that two do not fit
	h, err := r.AllocHost(shape.F32(n), "")
	if err != nil {
		t.Fatal(err)
	}
	var list []Tensor
	for i := range 3 {
		if err := h.Wait(bg); err != nil {
			t.Fatal(err)
		}
		shape.View[float32](h.Bytes())[n-1] = float32(i)
		list = append(list, h.Upload())
	}
	for i, x := range list {
		if err := h.Fetch(bg, x); err != nil {
			t.Fatal(err)
		}
		if got := shape.View[float32](h.Bytes())[n-1]; got != float32(i) {
			t.Errorf("tensor %d ends with %v", i, got)
		}
		if err := x.Release(); err != nil {
			t.Error(err)
		}
	}
	if err := h.Free(); err != nil {
		t.Error(err)
	}
}

// Uploads that overtake each other, and memory that is freed meanwhile, are safe.
func TestHostTensorsAtOnce(t *testing.T) {
	r := open(t, 1, ContextOptions{})
	h, err := r.AllocHost(shape.F32(1000), "")
	if err != nil {
		t.Fatal(err)
	}
	clear(h.Bytes())
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for range 20 {
				x := h.Upload()
				if err := x.Wait(bg); err != nil && !errors.Is(err, device.ErrDeleted) {
					t.Error(err)
				}
				if err := x.Release(); err != nil {
					t.Error(err)
				}
			}
		})
	}
	if err := h.Free(); err != nil {
		t.Error(err)
	}
	all.Wait()
}
