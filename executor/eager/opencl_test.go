package eager

import (
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/berth-ml/berth/engine/device"
	_ "github.com/berth-ml/berth/engine/device/gpu/cl"
	"github.com/berth-ml/berth/engine/ops"
	"github.com/berth-ml/berth/engine/shape"
	"github.com/berth-ml/berth/internal/testall"
	"github.com/berth-ml/berth/residency"
	"github.com/berth-ml/berth/residency/ledger"
)

// On a device with memory of its own, host tensors are pinned, values are logged, and only counts are fetched.
func TestOnOpenCL(t *testing.T) {
	devs, err := device.Open("opencl", device.OpenOptions{Count: 1, MemoryBytes: 1 << 20})
	if err != nil {
		testall.NoOpenCL(t, err)
		return
	}
	var log strings.Builder
	c, err := New(devs, ContextOptions{Handler: func(devices Handler) Handler { return LoggingValues(devices, &log) }})
	if err != nil {
		t.Fatal(err)
	}
	h, err := c.AllocHost(shape.F32(2, 2), "")
	if err != nil {
		t.Fatal(err)
	}
	copy(shape.View[float32](h.Bytes()), []float32{0, -1, 2, 0})
	x := c.One(ops.Unary{Fn: "neg"}, h.Upload())
	if err := h.Fetch(bg, x); err != nil {
		t.Fatal(err)
	}
	if got := shape.View[float32](h.Bytes()); !slices.Equal(got, []float32{0, 1, -2, 0}) {
		t.Errorf("fetched %v", got)
	}
	if want := "\n  f32[2,2]: [-0 1 -2 -0], least -2, largest 1, mean -0.25\n"; !strings.Contains(log.String(), want) {
		t.Errorf("the log does not have %q:\n%s", want, log.String())
	}
	at, err := c.Nonzero(bg, x)
	if err != nil {
		t.Fatal(err)
	}
	places, err := at.ToHost(bg)
	if err != nil || !slices.Equal(places.Int32s(), []int32{0, 1, 1, 0}) {
		t.Errorf("the places are %v: %v", places, err)
	}
	if got := c.Ledger().OfReason(ledger.Fetch).Bytes; got != 16+4+16 {
		t.Errorf("%d bytes were fetched, expected those of a tensor, a count and the places", got)
	}
	if err := errors.Join(at.Release(), h.Free(), c.Close(), devs[0].Close()); err != nil {
		t.Error(err)
	}
}

// beside opens a context on an OpenCL device and one on a CPU.
func beside(t *testing.T, memory int64) (gpu, host *Context) {
	t.Helper()
	var list []*Context
	for _, kind := range []string{"opencl", "cpu"} {
		devs, err := device.Open(kind, device.OpenOptions{Count: 1, MemoryBytes: memory})
		if err != nil && kind == "opencl" {
			testall.NoOpenCL(t, err)
		} else if err != nil {
			t.Fatal(err)
		}
		c, err := New(devs, ContextOptions{})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := errors.Join(c.Close(), devs[0].Close()); err != nil {
				t.Error(err)
			}
		})
		list = append(list, c)
	}
	return list[0], list[1]
}

// failer is a test, or one that rapid draws.
type failer interface {
	Helper()
	Errorf(format string, args ...any)
	Fatalf(format string, args ...any)
}

// dynamicBits are the results of Nonzero and Unique.
func dynamicBits(t failer, c *Context, m shape.Meta, contents []byte) (metas []shape.Meta, all [][]int32) {
	t.Helper()
	x := c.FromBytes(m, contents, "")
	before := c.Ledger().OfReason(ledger.Fetch)
	places, err1 := c.Nonzero(bg, x.Ref())
	values, index, counts, err2 := c.Unique(bg, x)
	if err := errors.Join(err1, err2); err != nil {
		t.Fatalf("%v: %v", m, err)
	}
	if got := c.Ledger().OfReason(ledger.Fetch); got.Count-before.Count != 2 || got.Bytes-before.Bytes != 12 {
		t.Errorf("%v: %d fetches of %d bytes, expected two of 4 and 8", m, got.Count-before.Count, got.Bytes-before.Bytes)
	}
	for _, y := range []Tensor{places, values, index, counts} {
		h, err := y.ToHost(bg)
		if err == nil {
			err = y.Release()
		}
		if err != nil {
			t.Fatalf("%v: %v", m, err)
		}
		words := []int32{}
		if y.Meta().DType == shape.Float32 {
			for _, f := range h.Float32s() {
				words = append(words, int32(math.Float32bits(f)))
			}
		} else {
			words = append(words, h.Int32s()...)
		}
		metas, all = append(metas, y.Meta()), append(all, words)
	}
	return metas, all
}

// A device that runs no Go counts and sorts as the CPU does, to the bit, and fetches the counts alone.
func TestCountedOnOpenCL(t *testing.T) {
	gpu, host := beside(t, 1<<28)
	rng := rand.New(rand.NewPCG(1, 2))
	check := func(t failer, s shape.Shape, word func() int32) {
		t.Helper()
		words := make([]int32, s.Elems())
		for i := range words {
			words[i] = word()
		}
		for _, of := range []shape.DType{shape.Float32, shape.Int32} {
			m := shape.Meta{DType: of, Shape: s}
			gotMetas, got := dynamicBits(t, gpu, m, shape.Bytes(words))
			wantMetas, want := dynamicBits(t, host, m, shape.Bytes(words))
			for i, name := range []string{"places", "values", "index", "counts"} {
				if !gotMetas[i].Equal(wantMetas[i]) || !slices.Equal(got[i], want[i]) {
					t.Fatalf("the %s of %v are %v, or other numbers than the CPU's %v", name, m, gotMetas[i], wantMetas[i])
				}
			}
		}
	}
	anyBits := func() int32 { return int32(rng.Uint32()) } // NaN of each kind and denormals among them
	few := func() int32 {
		return []int32{0, 1, -1, math.MinInt32, 0x7f800000, 0x7f800001, -0x400000, 0x3f800000}[rng.IntN(8)]
	}
	zeros := func() int32 { return 0 }
	rare := func() int32 { return max(0, rng.Int32()-math.MaxInt32+1<<16) }
	shapes := []shape.Shape{
		{}, {0}, {1}, {3, 0, 2}, {63}, {64}, {65}, {1023}, {1024}, {1025}, {7, 11, 13}, {2, 3, 2, 1, 2, 3, 2, 5}, {300, 50},
		{1<<18 + 1}, // the sums of its groups are summed up in groups, too
	}
	if testall.Wanted() { // each rank has a kernel, which takes long to compile
		shapes = append(shapes, shape.Shape{2, 3, 2, 3}, shape.Shape{1, 2, 1, 3, 5}, shape.Shape{2, 1, 3, 2, 2, 2}, shape.Shape{3, 2, 1, 2, 3, 1, 2})
	}
	for _, s := range shapes {
		for _, word := range []func() int32{anyBits, few, zeros, rare} {
			check(t, s, word)
		}
	}
	check(t, shape.Of(1<<10, 1<<10), anyBits)
	rapid.Check(t, func(t2 *rapid.T) {
		s := shape.Shape(rapid.SliceOfN(rapid.SampledFrom([]int{0, 1, 1, 2, 3, 7, 31, 40}), 0, 3).Draw(t2, "shape"))
		most := rapid.SampledFrom([]int32{1, 2, 100, math.MaxInt32}).Draw(t2, "most")
		check(t2, s, func() int32 { return rng.Int32N(most) - most/2 })
	})
	places, err := gpu.Nonzero(bg, gpu.One(ops.Fill{Meta: shape.F32(1<<22 + 1025), Value: 1}))
	if err != nil || !places.Meta().Equal(shape.I32(1<<22+1025, 1)) {
		t.Fatalf("the places are %v: %v", places.Meta(), err)
	}
	h, err := places.ToHost(bg)
	if err := errors.Join(err, places.Release()); err != nil {
		t.Fatal(err)
	}
	for i, at := range h.Int32s() {
		if int(at) != i {
			t.Fatalf("place %d is %d", i, at)
		}
	}
}

// A program's op in Go is refused by name, and what the kernels of an op need counts as memory.
func TestNotCountedOnOpenCL(t *testing.T) {
	gpu, _ := beside(t, 1<<20)
	x := gpu.FromBytes(shape.F32(2), shape.Bytes([]float32{1, 2}), "")
	_, err := gpu.Dynamic(above{}, x).Tensors(bg)
	fails(t, err, device.ErrUnsupported, "opencl_test.go:", "above")
	const n = 45_000 // x and the results are 720,000 bytes
	y := gpu.One(ops.Fill{Meta: shape.I32(n), Value: 1})
	_, _, _, err = gpu.Unique(bg, y)
	fails(t, err, residency.ErrBudget, "unique")
	values, index, counts, err := gpu.Unique(bg, gpu.One(ops.Fill{Meta: shape.I32(n * 4 / 5), Value: 1}))
	if err := errors.Join(err, values.Release(), index.Release(), counts.Release()); err != nil {
		t.Error(err)
	}
}
