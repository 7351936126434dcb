package host

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/berth-ml/berth/engine/device"
	"github.com/berth-ml/berth/engine/device/devicetest"
	"github.com/berth-ml/berth/engine/device/streams"
	"github.com/berth-ml/berth/engine/fuse"
	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/engine/ops"
	"github.com/berth-ml/berth/engine/shape"
)

// turner negates its input, by way of a packed copy if it gets memory for one,
// and counts its runs.
type turner struct {
	memory []byte
	made   bool
	bytes  int64
	fail   error
	bare   int // runs without memory
	making int // runs that made it
	using  int // runs that found it made

	started, goOn chan struct{} // if not nil, a run says so and waits
}

func (*turner) ScratchBytes() int64                   { return 0 }
func (k *turner) UsePacked(memory []byte, valid bool) { k.memory, k.made = memory, valid }
func (k *turner) Packs() (input int, bytes int64, layout string) {
	return 0, k.bytes, "negated"
}

func (k *turner) Run(in, out [][]byte, _ []byte) error {
	if k.fail != nil {
		return k.fail
	}
	if k.started != nil {
		k.started <- struct{}{}
		<-k.goOn
	}
	from, to := in[0], out[0]
	switch {
	case k.memory == nil:
		k.bare++
	case k.made:
		k.using++
		copy(to, k.memory)
		return nil
	default:
		k.making++
		defer func() { copy(k.memory, to) }()
	}
	for i, v := range from {
		to[i] = -v
	}
	return nil
}

// packRig is a device with one weight and a launch that reads it.
type packRig struct {
	t      *testing.T
	k      *turner
	d      *streams.Device
	s      device.Stream
	x      device.Executable
	w, out device.Buffer
	host   device.HostBuffer
	last   byte
}

const packBytes = 64

func newPackRig(t *testing.T, budget int64) *packRig {
	r := &packRig{t: t, k: &turner{bytes: packBytes}}
	var errs [6]error
	r.d, errs[0] = New(Config{
		Spec: device.Spec{ID: "toy:0", Kind: "toy", MemoryBytes: budget},
		Bind: func(*fuse.Cluster) (Kernel, error) { return r.k, nil },
	})
	m := shape.F32(packBytes / 4)
	g := devicetest.Segment(t, func(b *graph.Builder) []*graph.Value {
		return []*graph.Value{ops.Neg(b, b.Input("w", m))}
	})
	r.x, errs[1] = r.d.Compile(g, device.CompileOptions{})
	r.host, errs[2] = r.d.AllocHost(packBytes)
	r.s, errs[3] = r.d.NewStream("s")
	r.w, errs[4] = r.s.Alloc(m, device.Weight)
	r.out, errs[5] = r.s.Alloc(m, device.Activation)
	if err := errors.Join(errs[:]...); err != nil {
		t.Fatal(err)
	}
	return r
}

// change gives the weight new contents.
func (r *packRig) change() {
	r.t.Helper()
	r.last++
	r.host.Bytes()[0] = r.last
	if err := r.s.CopyIn(r.w, r.host); err != nil {
		r.t.Fatal(err)
	}
	r.wait()
}

// run launches once and wants the result of the weight as it is.
func (r *packRig) run() {
	r.t.Helper()
	e, err := r.s.Launch(r.x, []device.Buffer{r.w}, []device.Buffer{r.out}, nil)
	if err == nil {
		err = e.Wait(context.Background())
	}
	if err != nil {
		r.t.Fatal(err)
	}
	result := &mine{make([]byte, packBytes)}
	if e, err = r.s.CopyOut(result, r.out); err == nil {
		err = e.Wait(context.Background())
	}
	if got := result.data[0]; err != nil || got != -r.last {
		r.t.Fatalf("result %d, want %d, %v", got, -r.last, err)
	}
}

func (r *packRig) wait() {
	r.t.Helper()
	if err := r.s.Record().Wait(context.Background()); err != nil {
		r.t.Fatal(err)
	}
}

// want compares the counts of runs so far, and the bytes of packed copies.
func (r *packRig) want(bare, making, using int, held int64) {
	r.t.Helper()
	got := fmt.Sprintf("%d bare, %d making, %d using, %d bytes", r.k.bare, r.k.making, r.k.using, r.d.Stats().Cached)
	if want := fmt.Sprintf("%d bare, %d making, %d using, %d bytes", bare, making, using, held); got != want {
		r.t.Fatalf("%s; want %s", got, want)
	}
}

// close frees everything, and wants nothing live.
func (r *packRig) close() {
	r.t.Helper()
	if err := errors.Join(r.s.Close(), r.w.Free(), r.out.Free(), r.host.Free()); err != nil {
		r.t.Error(err)
	}
	if s := r.d.Stats(); s.Live != 0 || s.Cached != 0 {
		r.t.Errorf("%d bytes are live, %d cached", s.Live, s.Cached)
	}
	if err := r.d.Close(); err != nil {
		r.t.Error(err)
	}
}

func TestPackedWhileUnchanged(t *testing.T) {
	r := newPackRig(t, 1<<16)
	r.change()
	r.run()
	r.want(1, 0, 0, 0) // it may be read only once
	r.run()
	r.want(1, 1, 0, packBytes)
	r.run()
	r.run()
	r.want(1, 1, 2, packBytes)
	r.change()
	r.run() // the last contents were read again: these will be
	r.want(1, 2, 2, packBytes)
	r.run()
	r.want(1, 2, 3, packBytes)
	r.change()
	r.run()
	r.change()
	r.run() // the last ones were not
	r.want(2, 3, 3, 0)
	r.change()
	r.run()
	r.want(3, 3, 3, 0)
	r.close()
}

func TestLaunchesAndPeerCopiesChangeContents(t *testing.T) {
	r := newPackRig(t, 1<<16)
	r.change()
	r.run()
	r.run()
	r.want(1, 1, 0, packBytes)
	if err := r.s.CopyPeer(r.w, r.out); err != nil { // the negative
		t.Fatal(err)
	}
	r.last = -r.last
	r.run()
	r.run()
	r.want(1, 2, 1, packBytes)
	if _, err := r.s.Launch(r.x, []device.Buffer{r.out}, []device.Buffer{r.w}, nil); err != nil { // the negative of that
		t.Fatal(err)
	}
	r.wait() // it packed its own input: nothing is kept of r.out
	r.want(2, 2, 1, packBytes)
	r.run()
	r.want(2, 3, 1, packBytes)
	r.close()
}

func TestPackedIsEvictedWhenMemoryIsShort(t *testing.T) {
	r := newPackRig(t, 4*packBytes)
	r.change()
	r.run()
	r.run()
	if _, err := r.s.Alloc(shape.F32(packBytes), device.Activation); !errors.Is(err, device.ErrOutOfMemory) {
		t.Errorf("more than the device has: %v", err)
	}
	r.want(1, 1, 0, packBytes) // it would not have been enough
	var more [2]device.Buffer
	for i := range more {
		b, err := r.s.Alloc(shape.F32(packBytes/4), device.Activation)
		if err != nil {
			t.Fatal(err)
		}
		more[i] = b
	}
	r.want(1, 1, 0, 0)
	if _, err := r.s.Alloc(shape.F32(1), device.Activation); !errors.Is(err, device.ErrOutOfMemory) {
		t.Errorf("a full device: %v", err)
	}
	r.run()
	r.run()
	for _, b := range more {
		if err := b.Free(); err != nil {
			t.Fatal(err)
		}
	}
	r.run() // there is room, but it would be taken away again
	r.want(4, 1, 0, 0)
	r.close()
}

func TestNothingIsPackedWithoutRoom(t *testing.T) {
	r := newPackRig(t, 2*packBytes)
	r.change()
	r.run()
	r.run()
	r.want(2, 0, 0, 0)
	r.close()
}

// TestFailedRunLeavesNoPackedCopy: the memory that a failed kernel leaves does
// not count as a packed copy.
func TestFailedRunLeavesNoPackedCopy(t *testing.T) {
	r := newPackRig(t, 1<<16)
	r.change()
	r.run()
	r.k.fail = errors.New("no")
	s, err := r.d.NewStream("fails")
	if err != nil {
		t.Fatal(err)
	}
	e, err := s.Launch(r.x, []device.Buffer{r.w}, []device.Buffer{r.out}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := e.Wait(context.Background()); !errors.Is(err, r.k.fail) {
		t.Errorf("error %v", err)
	}
	_ = s.Close() // the failure, again
	r.k.fail = nil
	r.run()
	r.want(1, 1, 0, packBytes)
	r.run()
	r.want(1, 1, 1, packBytes)
	r.close()
}

// TestPackedIsEvictedUnderItsKernel: work that gets the memory with which a
// kernel runs waits for the kernel's launch.
func TestPackedIsEvictedUnderItsKernel(t *testing.T) {
	r := newPackRig(t, 4*packBytes)
	r.change()
	r.run()
	r.run()
	r.k.started, r.k.goOn = make(chan struct{}), make(chan struct{})
	if _, err := r.s.Launch(r.x, []device.Buffer{r.w}, []device.Buffer{r.out}, nil); err != nil {
		t.Fatal(err)
	}
	<-r.k.started
	other, err := r.d.NewStream("other")
	if err != nil {
		t.Fatal(err)
	}
	b, err := other.Alloc(shape.F32(packBytes/2), device.Activation)
	if err != nil {
		t.Fatal(err)
	}
	if time.Sleep(10 * time.Millisecond); other.Record().Done() {
		t.Error("a stream got the memory of a kernel that runs")
	}
	close(r.k.goOn)
	r.wait()
	if err := other.Record().Wait(context.Background()); err != nil {
		t.Error(err)
	}
	r.want(1, 1, 1, 0)
	if err := errors.Join(b.Free(), other.Close()); err != nil {
		t.Error(err)
	}
	r.close()
}
