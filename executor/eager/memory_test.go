package eager

import (
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"gorgonia.org/tensor"

	"github.com/berth-ml/berth/engine/device"
	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/engine/ops"
	"github.com/berth-ml/berth/engine/shape"
	"github.com/berth-ml/berth/internal/testall"
	"github.com/berth-ml/berth/residency"
	"github.com/berth-ml/berth/residency/ledger"
)

// loops are programs of one op that repeat, as functions of a value x and a constant y.
var loops = []struct {
	name string
	step func(c *Context, x, y Tensor) Tensor
}{
	{"dependent", func(c *Context, x, y Tensor) Tensor { return c.One(ops.AddOp, x, y.Ref()) }},
	{"independent", func(c *Context, x, y Tensor) Tensor {
		_ = c.One(ops.AddOp, y.Ref(), y.Ref()).Release()
		return x
	}},
	{"with scratch", func(c *Context, x, y Tensor) Tensor { return c.One(ops.MatMul{}, x, y.Ref()) }},
	{"with attributes", func(c *Context, x, _ Tensor) Tensor { return c.One(half, x) }},
}

var half graph.Op = ops.Affine{Scale: 0.5}

// A loop of ops takes no more memory the longer it runs, and allocates nothing.
func TestLoopsDoNotGrow(t *testing.T) {
	for i, l := range loops {
		n := 2000
		if i < 2 {
			n = testall.Or(n, testall.Most(1_000_000, 50_000))
		}
		r := open(t, 1, ContextOptions{})
		x, y := r.floats(make([]float32, 16), 4, 4), r.floats(make([]float32, 16), 4, 4)
		begin := make(chan struct{}) // as far ahead as the loop can be: what it takes then is the most
		first := &Invocation{Op: half, Args: []Tensor{x}, Chain: r.Call(nil, func([]*tensor.Dense) error { <-begin; return nil })}
		r.Run(first)
		x = first.Results[0]
		for range laneSize - 2 {
			x = l.step(r.Context, x, y)
		}
		x = r.One(half, x) // after all of them
		close(begin)
		if err := x.Wait(bg); err != nil {
			t.Fatal(err)
		}
		before, live := heap(), r.devs[0].Stats().Live
		allocs := testing.AllocsPerRun(1, func() {
			for range n {
				x = l.step(r.Context, x, y)
			}
		})
		x = r.One(half, x)
		if allocs > float64(n)/1000 {
			t.Errorf("%s: %v allocations for %d ops", l.name, allocs, n)
		}
		for end := time.Now().Add(10 * time.Second); r.devs[0].Stats().Live > live+1<<10 && time.Now().Before(end); {
			time.Sleep(time.Millisecond)
			if err := x.Wait(bg); err != nil { // gives back what calls that have ended had
				t.Fatal(err)
			}
		}
		if after, now := heap(), r.devs[0].Stats().Live; after > before+1<<16 || now > live+1<<10 {
			t.Errorf("%s: %d bytes of heap after %d, %d bytes of device memory after %d", l.name, after, before, now, live)
		}
		if n := r.tenant.Tensors(); n > laneSize+100 {
			t.Errorf("%s: %d records for a loop with two tensors and %d calls ahead", l.name, n, laneSize)
		}
		if err := errors.Join(x.Release(), y.Release()); err != nil {
			t.Error(err)
		}
	}
}

// heap is the bytes of the heap in use.
func heap() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// Tensors that do not fit go to the host, come back where they are used, and count.
func TestTensorsSpill(t *testing.T) {
	r := open(t, 1, ContextOptions{}) // 4 MiB
	const n, side = 12, 1 << 18       // 1 MiB each
	fill := func(i int) graph.Op { return ops.Fill{Meta: shape.F32(side), Value: float64(i)} }
	var list []Tensor
	for i := range n {
		list = append(list, r.One(fill(i)))
	}
	sum := list[0].Ref()
	for _, x := range list[1:] {
		sum = r.One(ops.AddOp, sum, x.Ref())
	}
	if v := r.value(sum); v[0] != n*(n-1)/2 || v[side-1] != v[0] {
		t.Errorf("the sum is %v", v[0])
	}
	if s := r.devs[0].Stats(); s.Peak > 1<<22 {
		t.Errorf("%d bytes at the peak", s.Peak)
	}
	var spilled, back, fetched int64
	for _, x := range r.tenant.Ledger().Sums() {
		switch {
		case x.Kind == ledger.Spill:
			spilled += x.Count.Count
		case x.Kind == ledger.CopyIn:
			back += x.Count.Count
		case x.Reason == ledger.Fetch:
			fetched += x.Count.Count
		}
	}
	if spilled < n-4 || back < n-4 || fetched != 1 {
		t.Errorf("%d spills, %d copies in, %d fetches", spilled, back, fetched)
	}
	for i, x := range list {
		if v := r.value(x); v[i] != float32(i) {
			t.Errorf("tensor %d has %v", i, v[i])
		}
	}
	big := r.One(ops.AddOp, r.One(ops.Fill{Meta: shape.F32(3 << 18)}), r.One(ops.Fill{Meta: shape.F32(3 << 18)}))
	fails(t, big.Wait(bg), residency.ErrBudget, "memory_test.go:", "add: ", "f32[786432]", "3.0 MiB")
	_ = big.Release()
}

// Two contexts and their tensors share a device. Those of one that does nothing give way.
func TestContextsShareDevices(t *testing.T) {
	devs, err := device.Open("cpu", device.OpenOptions{Count: 1, Threads: 1, MemoryBytes: 1 << 20})
	if err != nil {
		t.Fatal(err)
	}
	m, err := residency.New(devs, residency.ManagerOptions{})
	if err != nil {
		t.Fatal(err)
	}
	join := func(name string) *Context {
		c, err := Join(bg, m, residency.TenantOptions{Name: name}, ContextOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	a, b := join("a"), join("b")
	_, err = Join(bg, m, residency.TenantOptions{Name: "a"}, ContextOptions{})
	fails(t, err, residency.ErrMismatch, `"a"`)
	big := ops.Fill{Meta: shape.F32(3 << 16), Value: 7} // three quarters
	x := a.One(big)
	if err := x.Wait(bg); err != nil {
		t.Fatal(err)
	}
	for range 20 {
		y := b.One(ops.Affine{Scale: 2}, b.One(big))
		d, err := y.ToHost(bg)
		if err != nil || d.Data().([]float32)[5] != 14 {
			t.Fatal(d, err)
		}
		_ = y.Release()
	}
	d, err := x.ToHost(bg)
	if err != nil || d.Data().([]float32)[5] != 7 {
		t.Errorf("%v, %v", d, err)
	}
	of := b.One(big)
	fails(t, a.One(ops.AddOp, x.Ref(), of).Err(), ErrDevice)
	if err := errors.Join(x.Release(), a.Close(), b.Close(), m.Close(), devs[0].Close()); err != nil {
		t.Error(err)
	}
}

// A program may upload ever new shapes: their records do not stay.
func TestEverNewShapes(t *testing.T) {
	r := open(t, 1, ContextOptions{})
	data := make([]byte, 4*(keptPools+100))
	y := r.floats([]float32{2}, 1)
	step := testall.Or(50, 1)
	for i := 1; i < keptPools+100; i++ {
		if i%step > 0 { // a shape that nobody uses
			for _, l := range r.lanes {
				l.mu.Lock()
				l.memory.pool(shape.F32(i), device.Activation)
				l.mu.Unlock()
			}
			continue
		}
		x := r.One(ops.AddOp, r.FromBytes(shape.F32(i), data[:4*i], ""), y.Ref())
		if err := x.Wait(bg); err != nil {
			t.Fatal(err)
		}
		_ = x.Release()
	}
	if n := len(r.lanes[0].memory.pools); n > keptPools {
		t.Errorf("%d pools", n)
	}
	if n := r.tenant.Tensors(); n > keptPools {
		t.Errorf("%d records", n)
	}
	r.expect(r.One(ops.AddOp, y.Ref(), y), 4)
}

// Cancel ends the waiting for memory that another tenant uses.
func TestCancelEndsWaitingForMemory(t *testing.T) {
	devs, err := device.Open("cpu", device.OpenOptions{Count: 1, Threads: 1, MemoryBytes: 1 << 16})
	if err != nil {
		t.Fatal(err)
	}
	m, err := residency.New(devs, residency.ManagerOptions{})
	if err != nil {
		t.Fatal(err)
	}
	other, err := m.Join(bg, residency.TenantOptions{Name: "other"})
	if err != nil {
		t.Fatal(err)
	}
	c, err := Join(bg, m, residency.TenantOptions{Name: "ops"}, ContextOptions{})
	if err != nil {
		t.Fatal(err)
	}
	s, err := devs[0].NewStream("other")
	if err != nil {
		t.Fatal(err)
	}
	all, err := other.Declare(residency.Key{Value: "all"}, shape.F32(1<<14), device.Activation)
	if err != nil {
		t.Fatal(err)
	}
	var l residency.Lease
	if err := other.Acquire(bg, s, []residency.Need{{Tensor: all, Mode: residency.Write}}, 0, &l); err != nil {
		t.Fatal(err)
	}
	x := c.One(ops.Fill{Meta: shape.F32(16), Value: 1})
	if x.Done() {
		t.Error("the op ran without memory")
	}
	c.Cancel(nil)
	fails(t, x.Wait(bg), ErrCanceled)
	c.Restart()
	y := c.One(ops.Fill{Meta: shape.F32(16), Value: 1})
	if err := other.Abandon(&l); err != nil {
		t.Fatal(err)
	}
	if err := y.Wait(bg); err != nil {
		t.Error(err)
	}
	if err := errors.Join(x.Release(), y.Release(), c.Close(), s.Close(), m.Close(), devs[0].Close()); err != nil {
		t.Error(err)
	}
}

// A copy that is released while it is under way leaves its memory to no other tensor
// before it has ended.
func TestReleasedWhileCopied(t *testing.T) {
	r := open(t, 2, ContextOptions{})
	const n = 4096
	x := r.floats(slices.Repeat([]float32{1}, n), n)
	y := r.FromBytes(x.Meta(), shape.Bytes(slices.Repeat([]float32{2}, n)), "cpu:1")
	want := slices.Repeat([]float32{4}, n)
	for range 200 {
		if err := x.CopyTo("cpu:1").Release(); err != nil {
			t.Fatal(err)
		}
		z := r.One(ops.AddOp, y.Ref(), y.Ref())
		d, err := z.ToHost(bg)
		if err != nil || !slices.Equal(d.Data().([]float32), want) {
			t.Errorf("another tensor has the copy's contents: %v", err)
		}
		if err := z.Release(); err != nil || t.Failed() {
			t.Fatal(err)
		}
	}
	for _, v := range []Tensor{x, y} {
		if err := v.Release(); err != nil {
			t.Error(err)
		}
	}
}

// Close names the lines that made what is still held, also of results in an argument's memory,
// and of no tensor that was consumed.
func TestPlaces(t *testing.T) {
	for _, places := range []bool{false, true} {
		devs, err := device.Open("cpu", device.OpenOptions{Count: 1, MemoryBytes: 1 << 20})
		if err != nil {
			t.Fatal(err)
		}
		c, err := New(devs, ContextOptions{Places: places})
		if err != nil {
			t.Fatal(err)
		}
		var held []Tensor
		line := Caller(0).Pos().Line
		for range 3 {
			held = append(held, c.One(ops.Unary{Fn: "relu"}, c.FromBytes(shape.F32(2), make([]byte, 8), "")))
		}
		held = append(held, c.One(ops.Unary{Fn: "neg"}, held[0].Ref()))
		held = append(held, held[1].CopyTo("cpu:0"))
		err = c.Close()
		fails(t, err, nil, "5 tensors are still held, with 40 bytes")
		for k, n := range map[int]int{2: 3, 4: 1, 5: 1} {
			if at := fmt.Sprintf("memory_test.go:%d (%d)", line+k, n); strings.Contains(err.Error(), at) != places {
				t.Errorf("error %v with places %v, expected %s with them", err, places, at)
			}
		}
		if !places {
			fails(t, err, nil, "ContextOptions.Places")
		}
		for _, x := range held {
			err = x.Release()
		}
		if err := errors.Join(err, devs[0].Close()); err != nil {
			t.Error(err)
		}
	}
}
