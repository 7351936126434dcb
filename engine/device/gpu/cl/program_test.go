package cl

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"github.com/berth-ml/berth/engine/device"
	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/engine/ops"
	"github.com/berth-ml/berth/engine/shape"
	"github.com/berth-ml/berth/internal/testall"
)

// launched is a graph with its inputs on a device.
type launched struct {
	t  *testing.T
	s  device.Stream
	x  device.Executable
	in []device.Buffer
}

// launchOn compiles a graph and copies its inputs in.
func launchOn(t *testing.T, d device.Device, build func(b *graph.Builder) []*graph.Value, inputs ...[]byte) *launched {
	t.Helper()
	b := graph.NewBuilder("failing", 1)
	for i, v := range build(b) {
		b.Output(v.Name+string(rune('a'+i)), v)
	}
	g, err := b.Graph()
	l := &launched{t: t}
	l.ok(err)
	l.x, err = d.Compile(g, device.CompileOptions{})
	l.ok(err)
	l.s, err = d.NewStream("failing")
	l.ok(err)
	for i, v := range g.Inputs {
		l.in = append(l.in, l.alloc(v.Meta))
		l.ok(l.s.CopyIn(l.in[i], &hostBytes{inputs[i]}))
	}
	return l
}

func (l *launched) ok(err error) {
	l.t.Helper()
	if err != nil {
		l.t.Fatal(err)
	}
}

func (l *launched) alloc(m shape.Meta) device.Buffer {
	l.t.Helper()
	b, err := l.s.Alloc(m, device.Activation)
	l.ok(err)
	l.t.Cleanup(func() { l.ok(b.Free()) })
	return b
}

// fails launches, and wants a failure with these words.
func (l *launched) fails(words ...string) {
	l.t.Helper()
	out := make([]device.Buffer, len(l.x.Graph().Outputs))
	for k, v := range l.x.Graph().Outputs {
		out[k] = l.alloc(v.Meta)
	}
	var scratch device.Buffer
	if n := l.x.Memory().Temporary; n > 0 {
		scratch = l.alloc(shape.Meta{DType: shape.Uint8, Shape: shape.Of(int(n))})
	}
	e, err := l.s.Launch(l.x, l.in, out, scratch)
	l.ok(err)
	err = e.Wait(l.t.Context())
	for _, w := range words {
		if err == nil || !strings.Contains(err.Error(), w) {
			l.t.Errorf("got %v, want %q in it", err, w)
		}
	}
}

// A launch that fails names the op among those of a fused kernel or of a lockstep, and the row.
func TestFailuresOfClusters(t *testing.T) {
	devices, err := Open(device.OpenOptions{Count: 1, MemoryBytes: 1 << 20})
	if err != nil {
		testall.NoOpenCL(t, err)
	}
	d := devices[0]
	t.Cleanup(func() { d.Close() }) // after the buffers
	ids, logits := shape.Bytes([]int32{1, 9}), make([]byte, 4*12)
	l := launchOn(t, d, func(b *graph.Builder) []*graph.Value {
		e := ops.EmbeddingOf(b, b.Input("table", shape.F32(4, 2)), b.Input("ids", shape.I32(2)))
		return []*graph.Value{ops.Tanh(b, ops.AddConst(b, e, 1))}
	}, make([]byte, 32), ids)
	l.fails("token 9 at position 1 is outside the vocabulary of 4")
	l = launchOn(t, d, func(b *graph.Builder) []*graph.Value {
		x, targets := b.Input("x", shape.F32(4, 3)), ops.ReshapeTo(b, b.Input("targets", shape.I32(2, 2)), 4)
		loss := b.Apply(ops.CrossEntropy{}, x, targets)
		grad := b.One(ops.CrossEntropyGrad{}, x, targets, loss[1], b.Input("d", shape.F32()))
		return []*graph.Value{loss[0], grad, b.One(ops.Correct{}, x, targets)}
	}, logits, shape.Bytes([]int32{0, 1, 3, 7}), shape.Bytes([]float32{1}))
	l.fails("target 3 at position 2 is outside the 3 classes")
}

// A run that the driver fails leaves no failure of a kernel to the next run.
func TestRunAfterFailure(t *testing.T) {
	d, driver := openFaulty(t, device.OpenOptions{}, nil)
	t.Cleanup(func() { d.Close() }) // after the buffers
	l := launchOn(t, d, func(b *graph.Builder) []*graph.Value {
		e := ops.EmbeddingOf(b, b.Input("table", shape.F32(4, 2)), b.Input("ids", shape.I32(2)))
		return []*graph.Value{b.One(ops.Softmax{}, e)}
	}, make([]byte, 32), shape.Bytes([]int32{1, 9}))
	l.ok(l.in[1].Ready().Wait(t.Context()))
	driver.fails[finish] = allocationFailure
	l.fails("CL_MEM_OBJECT_ALLOCATION_FAILURE")
	clear(driver.fails)
	x, err := d.Compile(negate(t), device.CompileOptions{})
	l.ok(err)
	l.s, err = d.NewStream("next")
	l.ok(err)
	from, to := l.alloc(shape.F32(4)), l.alloc(shape.F32(4))
	e, err := l.s.Launch(x, []device.Buffer{from}, []device.Buffer{to}, nil)
	l.ok(err)
	l.ok(e.Wait(t.Context()))
}

// Compile runs kernels where a driver compiles them at the first run. They write
// nothing, and Stop ends it between two.
func TestCompileHasNoEffect(t *testing.T) {
	devices, err := Open(device.OpenOptions{Count: 1, MemoryBytes: 1 << 20})
	if err != nil {
		testall.NoOpenCL(t, err)
	}
	d := devices[0]
	t.Cleanup(func() { d.Close() }) // after the buffers
	full := bytes.Repeat([]byte{7}, 4*256*256)
	fill := func(b *graph.Builder) []*graph.Value {
		return []*graph.Value{ops.Tanh(b, b.Input("x", shape.F32(256, 256)))}
	}
	l := launchOn(t, d, fill, full)
	l.ok(l.in[0].Ready().Wait(t.Context()))
	b := graph.NewBuilder("product", 1)
	b.Output("y", b.One(ops.MatMul{}, b.Input("w", shape.F32(16, 16)), b.Input("v", shape.F32(16, 16))))
	z := b.Input("z", shape.F32(4, 8))
	b.Output("c", b.One(ops.Correct{}, z, b.Input("targets", shape.I32(4))))
	b.Output("t", b.One(ops.Sample{}, z, b.Input("at", shape.I32(4)), b.Input("shaping", shape.F32(4, 2)), b.Input("choice", shape.I32(4, 3))))
	b.Output("s", b.One(ops.Softmax{}, z))
	vast := b.Input("vast", shape.F32(1<<14, 1<<12))
	b.Output("m", b.One(ops.Reduce{Fn: "max"}, vast))
	g, err := b.Graph()
	l.ok(err)
	ended := errors.New("ended")
	for wanted := 0; ; wanted++ {
		asked := 0
		_, err := d.Compile(g, device.CompileOptions{Stop: func() error {
			if asked++; asked > wanted {
				return ended
			}
			return nil
		}})
		if err == nil {
			break
		}
		if !errors.Is(err, ended) || asked != wanted+1 {
			t.Fatalf("%v after %d questions", err, asked)
		}
	}
	got := &hostBytes{make([]byte, len(full))}
	e, err := l.s.CopyOut(got, l.in[0])
	l.ok(err)
	l.ok(e.Wait(t.Context()))
	if !bytes.Equal(got.Bytes(), full) {
		t.Error("compiling wrote to the device's memory")
	}
}
