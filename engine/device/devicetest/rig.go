package devicetest

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/berth-ml/berth/engine/device"
	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/engine/ops"
	"github.com/berth-ml/berth/engine/shape"
)

// Opener opens devices for one test. The suite closes them.
type Opener func(t *testing.T, o device.OpenOptions) []device.Device

// patience bounds every wait of the suite.
const patience = 30 * time.Second

// rig is an open device with one stream, and short ways to use them. Its
// methods end the test on an error.
type rig struct {
	t      *testing.T
	d      device.Device
	s      device.Stream   // the main stream, of d
	others []device.Device // of the same kind
	theirs []device.Stream // one for each of others
	used   []device.Stream // all of these, and those that stream has made
	copies sync.WaitGroup  // goroutines that wait for the copies of put
}

// with opens o.Count devices and a stream on the first, runs f, and checks
// that everything f made was given back.
func with(t *testing.T, open Opener, o device.OpenOptions, f func(r *rig)) {
	t.Helper()
	if o.Count == 0 {
		o.Count = 1
	}
	if o.MemoryBytes == 0 {
		o.MemoryBytes = 1 << 24
	}
	devs := open(t, o)
	if len(devs) != o.Count {
		t.Fatalf("%d devices were opened, asked for %d", len(devs), o.Count)
	}
	for i, d := range devs {
		devs[i] = Poison(d)
	}
	r := &rig{t: t, d: devs[0], others: devs[1:]}
	r.s = r.stream("main")
	for _, d := range r.others {
		r.theirs = append(r.theirs, r.streamOn(d, "main"))
	}
	f(r)
	r.copies.Wait()
	for _, s := range append(r.theirs, r.s) {
		if err := s.Close(); err != nil {
			t.Errorf("closing the stream: %v", err)
		}
	}
	for _, d := range devs {
		if live := d.Stats().Live; live != 0 {
			t.Errorf("%s: %d bytes are live at the end", d.ID(), live)
		}
		if err := d.Close(); err != nil {
			t.Errorf("closing %s: %v", d.ID(), err)
		}
	}
}

// computes tells whether the device runs kernels.
func (r *rig) computes() bool { return r.d.Spec().CopyOut }

func (r *rig) stream(name string) device.Stream {
	r.t.Helper()
	return r.streamOn(r.d, name)
}

func (r *rig) streamOn(d device.Device, name string) device.Stream {
	r.t.Helper()
	s, err := d.NewStream(name)
	r.ok(err)
	r.used = append(r.used, s)
	return s
}

func (r *rig) ok(err error) {
	r.t.Helper()
	if err != nil {
		r.t.Fatal(err)
	}
}

// fails checks an error: its cause, if one is given, and words of its text.
func (r *rig) fails(err, cause error, words ...string) {
	r.t.Helper()
	if err == nil {
		r.t.Fatalf("no error, expected one with %v %q", cause, words)
	}
	if cause != nil && !errors.Is(err, cause) {
		r.t.Fatalf("error %q, expected its cause to be %v", err, cause)
	}
	for _, w := range words {
		if !strings.Contains(err.Error(), w) {
			r.t.Fatalf("error %q does not have %q", err, w)
		}
	}
}

// wait waits for an event and returns its failure.
func (r *rig) wait(e device.Event) error {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	err := e.Wait(ctx)
	if ctx.Err() != nil {
		r.t.Fatal("an event never happened")
	}
	return err
}

// sync waits for everything queued on s.
func (r *rig) sync(s device.Stream) {
	r.t.Helper()
	r.ok(r.wait(s.Record()))
}

func (r *rig) alloc(m shape.Meta) device.Buffer { return r.allocOn(r.s, m) }

func (r *rig) allocOn(s device.Stream, m shape.Meta) device.Buffer {
	r.t.Helper()
	b, err := s.Alloc(m, device.Activation)
	r.ok(err)
	return b
}

func (r *rig) allocAll(ms []shape.Meta) []device.Buffer {
	r.t.Helper()
	var bs []device.Buffer
	for _, m := range ms {
		bs = append(bs, r.alloc(m))
	}
	return bs
}

func (r *rig) host(n int64) device.HostBuffer {
	r.t.Helper()
	h, err := r.d.AllocHost(n)
	r.ok(err)
	return h
}

// put copies numbers into a buffer of the main stream's device.
func (r *rig) put(b device.Buffer, data []float32) {
	r.t.Helper()
	r.putBytes(b, shape.Bytes(data))
}

func (r *rig) putBytes(b device.Buffer, data []byte) {
	r.t.Helper()
	h := r.host(int64(len(data)))
	copy(h.Bytes(), data)
	r.ok(r.s.CopyIn(b, h))
	done := r.s.Record()
	r.copies.Go(func() { r.overwrite(h, done) })
}

// overwrite fills host memory with poison once the copy from it has ended: the device
// may not read it after that.
func (r *rig) overwrite(h device.HostBuffer, copied device.Event) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	_ = copied.Wait(ctx) // who waits for the buffer learns of a failure
	fill(h.Bytes())
	if err := h.Free(); err != nil {
		r.t.Error(err)
	}
}

// upload makes a buffer with these contents.
func (r *rig) upload(data []float32, dims ...int) device.Buffer {
	r.t.Helper()
	b := r.alloc(shape.F32(dims...))
	r.put(b, data)
	return b
}

// get copies the contents of a buffer out.
func (r *rig) get(b device.Buffer) []float32 {
	r.t.Helper()
	h := r.host(b.Meta().Bytes())
	e, err := r.s.CopyOut(h, b)
	r.ok(err)
	r.ok(r.wait(e))
	data := slices.Clone(shape.View[float32](h.Bytes()))
	r.ok(h.Free())
	return data
}

// expect checks the exact contents of a buffer, if the device computes.
func (r *rig) expect(b device.Buffer, want ...float32) {
	r.t.Helper()
	if !r.computes() {
		return
	}
	if got := r.get(b); !slices.Equal(got, want) {
		r.t.Fatalf("%v holds %v, expected %v", b.Meta(), got, want)
	}
}

// drop frees buffers after everything that was queued so far.
func (r *rig) drop(bs ...device.Buffer) {
	r.t.Helper()
	var after []device.Event
	for _, s := range r.used {
		after = append(after, s.Record())
	}
	for _, b := range bs {
		r.ok(b.Free(after...))
	}
}

func (r *rig) compile(g *graph.Graph, o device.CompileOptions) device.Executable {
	r.t.Helper()
	x, err := r.d.Compile(g, o)
	r.ok(err)
	return x
}

func (r *rig) launch(x device.Executable, in, out []device.Buffer) device.Event {
	r.t.Helper()
	e, err := r.queue(r.s, x, in, out)
	r.ok(err)
	return e
}

// queue launches with scratch of its own.
func (r *rig) queue(s device.Stream, x device.Executable, in, out []device.Buffer) (device.Event, error) {
	r.t.Helper()
	if x == nil || x.Memory().Temporary == 0 {
		return s.Launch(x, in, out, nil)
	}
	scratch, err := s.Alloc(scratchFor(x), device.Scratch)
	if err != nil {
		return device.Event{}, err
	}
	e, err := s.Launch(x, in, out, scratch)
	r.ok(scratch.Free(s.Record()))
	return e, err
}

// scratchFor is the metadata of an executable's scratch.
func scratchFor(x device.Executable) shape.Meta {
	return shape.Meta{DType: shape.Uint8, Shape: shape.Of(int(x.Memory().Temporary))}
}

// Segment makes a segment. Its inputs are those that f declares, its outputs the
// values that f returns.
func Segment(t *testing.T, f func(b *graph.Builder) []*graph.Value) *graph.Graph {
	t.Helper()
	b := graph.NewBuilder("test", 1)
	outs := f(b)
	for _, v := range outs {
		b.Output(v.Name, v)
	}
	g, err := b.Graph()
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// affine is y = 2x+1 over n numbers.
func affine(t *testing.T, n int) *graph.Graph {
	t.Helper()
	return Segment(t, func(b *graph.Builder) []*graph.Value {
		x := b.Input("x", shape.F32(n))
		return []*graph.Value{b.One(ops.Affine{Scale: 2, Shift: 1}, x)}
	})
}

// ramp is 0, by, 2by, ...
func ramp(n int, by float32) []float32 {
	data := make([]float32, n)
	for i := range data {
		data[i] = float32(i) * by
	}
	return data
}

// waitingIsFree calls try, whose stream waits for the held time, until it was busy for
// less. On a loaded machine a stream may be busy for long without waiting, but not for
// longer each time.
func (r *rig) waitingIsFree(try func(held time.Duration) (busy int64)) {
	r.t.Helper()
	var busy int64
	for held := 20 * time.Millisecond; held < 2*time.Second; held *= 3 {
		if busy = try(held); busy < int64(held) || !r.computes() {
			return
		}
	}
	r.t.Errorf("busy for %v: waiting is counted", time.Duration(busy))
}
