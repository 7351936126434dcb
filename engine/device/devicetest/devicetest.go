package devicetest

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/berth-ml/berth/engine/device"
	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/engine/shape"
)

// Opener opens devices for one test. The suite closes them.
type Opener func(t *testing.T, o device.OpenOptions) []device.Device

// patience is how long the suite waits for what must come.
const patience = 30 * time.Second

// Run checks that a kind of device keeps the contract of package device.
func Run(t *testing.T, open func(t *testing.T, o device.OpenOptions) []device.Device) {
	for _, c := range []struct {
		name string
		test func(t *testing.T, open Opener)
	}{
		{"Spec", testSpec},
		{"Memory", testMemory},
		{"OutOfMemory", testOutOfMemory},
		{"MemoryIsReused", testReuse},
		{"Leaks", testLeaks},
		{"Closed", testClosed},
		{"Copies", testCopies},
		{"CopyMistakes", testCopyMistakes},
		{"Peers", testPeers},
		{"Order", testOrder},
		{"CrossStream", testCrossStream},
		{"Failure", testFailure},
		{"KernelFailure", testKernelFailure},
		{"Backlog", testBacklog},
		{"Cancel", testCancel},
		{"Sync", testSync},
		{"DeleteInFlight", testDeleteInFlight},
		{"Launch", testLaunch},
		{"LaunchMistakes", testLaunchMistakes},
		{"CompileCache", testCompileCache},
		{"CompileMistakes", testCompileMistakes},
		{"Donation", testDonation},
		{"DonationOrder", testDonationOrder},
		{"Hold", testHold},
		{"Update", testUpdate},
		{"Scratch", testScratch},
		{"Views", testViews},
		{"PassThrough", testPassThrough},
		{"Empty", testEmpty},
		{"CheckFinite", testCheckFinite},
		{"Hammer", testHammer},
		{"TwoStreams", testTwoStreams},
		{"SteadyState", testSteadyState},
		{"RandomGraphs", testRandomGraphs},
	} {
		t.Run(c.name, func(t *testing.T) {
			before := goleak.IgnoreCurrent()
			c.test(t, open)
			goleak.VerifyNone(t, before)
		})
	}
}

// rig is an open device with one stream, and short ways to use them.
type rig struct {
	t      *testing.T
	d      device.Device
	s      device.Stream
	others []device.Device
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
	r := &rig{t: t, d: devs[0], others: devs[1:]}
	r.s = r.stream("main")
	f(r)
	if err := r.s.Close(); err != nil {
		t.Errorf("closing the stream: %v", err)
	}
	for _, d := range devs {
		live := d.Stats().Live - d.Stats().LiveBy[device.Scratch]
		if live != 0 {
			t.Errorf("%s: %d bytes are live at the end", d.ID(), live)
		}
		if err := d.Close(); err != nil {
			t.Errorf("closing %s: %v", d.ID(), err)
		}
	}
}

func (r *rig) computes() bool { return r.d.Spec().CopyOut }

func (r *rig) stream(name string) device.Stream {
	r.t.Helper()
	s, err := r.d.NewStream(name)
	r.ok(err)
	return s
}

func (r *rig) ok(err error) {
	r.t.Helper()
	if err != nil {
		r.t.Fatal(err)
	}
}

// fails checks an error by its cause, and that its text has the words.
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

func (r *rig) alloc(m shape.Meta) device.Buffer { return r.allocOn(r.d, m) }

func (r *rig) allocOn(d device.Device, m shape.Meta) device.Buffer {
	r.t.Helper()
	b, err := d.Alloc(m, device.Activation)
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
	r.ok(h.Free()) // in flight: the device keeps it until the copy has ended
}

// upload makes a buffer with these contents.
func (r *rig) upload(data []float32, dims ...int) device.Buffer {
	r.t.Helper()
	b := r.alloc(shape.F32(dims...))
	r.put(b, data)
	return b
}

// get copies a buffer out.
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

// expect checks a buffer's contents, exactly, where the device can give them.
func (r *rig) expect(b device.Buffer, want ...float32) {
	r.t.Helper()
	if !r.computes() {
		return
	}
	if got := r.get(b); !slices.Equal(got, want) {
		r.t.Fatalf("%v holds %v, expected %v", b.Meta(), got, want)
	}
}

func (r *rig) drop(bs ...device.Buffer) {
	r.t.Helper()
	for _, b := range bs {
		r.ok(b.Delete())
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
	e, err := r.s.Launch(x, in, out)
	r.ok(err)
	return e
}

// build makes a segment: its inputs are what f declares with Input, its
// outputs what f returns.
func build(t *testing.T, f func(b *graph.Builder) []*graph.Value) *graph.Graph {
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

// gate is a queue whose one operation ends when the test says so.
type gate struct {
	end chan struct{}
	err error
}

func newGate() *gate { return &gate{end: make(chan struct{})} }

func (g *gate) open(err error) {
	g.err = err
	close(g.end)
}

func (g *gate) event() device.Event { return device.Event{Queue: g, Seq: 1} }

func (g *gate) Finished(uint64) bool {
	select {
	case <-g.end:
		return true
	default:
		return false
	}
}

func (g *gate) Err(seq uint64) error {
	if !g.Finished(seq) {
		return nil
	}
	return g.err
}

func (g *gate) Await(ctx context.Context, _ uint64) error {
	select {
	case <-g.end:
		return g.err
	case <-ctx.Done():
		return ctx.Err()
	}
}
