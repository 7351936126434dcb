package host

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/berth-ml/berth/engine/device"
	"github.com/berth-ml/berth/engine/device/devicetest"
	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/engine/ops"
	"github.com/berth-ml/berth/engine/shape"
)

// door is a queue whose one event happens when it is opened.
type door chan struct{}

func (d door) Finished(uint64) bool {
	select {
	case <-d:
		return true
	default:
		return false
	}
}

func (d door) Err(uint64) error { return nil }

func (d door) Await(ctx context.Context, _ uint64) error {
	select {
	case <-d:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// TestDelayIsPerBuffer: each of three updates in one launch waits for its own
// buffer; the launch runs up to there.
func TestDelayIsPerBuffer(t *testing.T) {
	ran := make(chan int, 8)
	d := toy(t, func(in, _ [][]byte) error {
		ran <- len(in[0])
		return nil
	})
	sizes := []int{1, 2, 3, 4} // in elements; the first is no update
	g := devicetest.Segment(t, func(b *graph.Builder) (out []*graph.Value) {
		for _, n := range sizes {
			out = append(out, ops.Neg(b, b.Input(string(rune('a'+n)), shape.F32(n))))
		}
		return out
	})
	x, err := d.Compile(g, device.CompileOptions{Alias: []int{-1, 1, 2, 3}})
	if err != nil {
		t.Fatal(err)
	}
	s, err := d.NewStream("s")
	if err != nil {
		t.Fatal(err)
	}
	var in, out []device.Buffer
	doors := []door{nil, make(door), make(door), make(door)}
	for i, n := range sizes {
		b, err := s.Alloc(shape.F32(n), device.Weight)
		if err != nil {
			t.Fatal(err)
		}
		in, out = append(in, b), append(out, b)
		if i > 0 {
			s.(device.Delayer).DelayWrite(b, device.Event{Queue: doors[i], Seq: 1})
		}
	}
	if out[0], err = s.Alloc(shape.F32(1), device.Weight); err != nil {
		t.Fatal(err)
	}
	e, err := s.Launch(x, in, out, nil)
	if err != nil {
		t.Fatal(err)
	}
	for i, n := range sizes {
		if i > 0 {
			select {
			case <-ran:
				t.Fatalf("update %d did not wait for its buffer", i)
			case <-time.After(5 * time.Millisecond):
			}
			close(doors[i])
		}
		if got := <-ran; got != 4*n {
			t.Fatalf("the kernel of %d bytes ran, not that of %d", got, 4*n)
		}
	}
	if err := e.Wait(context.Background()); err != nil {
		t.Fatal(err)
	}
	if e, err = s.Launch(x, in, out, nil); err != nil { // nothing is held any more
		t.Fatal(err)
	}
	if err := e.Wait(context.Background()); err != nil {
		t.Fatal(err)
	}
	for _, b := range append(in, out[0]) {
		if err := b.Free(); err != nil {
			t.Error(err)
		}
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if err := d.Close(); err != nil {
		t.Error(err)
	}
}

// TestOutputsComeOneByOne: each output of a launch is ready once its kernel has ended,
// while the next kernel waits for its input.
func TestOutputsComeOneByOne(t *testing.T) {
	d := toy(t, func(in, out [][]byte) error { copy(out[0], in[0]); return nil })
	sizes := []int{1, 2, 3}
	g := devicetest.Segment(t, func(b *graph.Builder) (out []*graph.Value) {
		for _, n := range sizes {
			out = append(out, ops.Neg(b, b.Input(string(rune('a'+n)), shape.F32(n))))
		}
		return out
	})
	x, err := d.Compile(g, device.CompileOptions{})
	if err != nil {
		t.Fatal(err)
	}
	s, err := d.NewStream("s")
	if err != nil {
		t.Fatal(err)
	}
	for range 2 { // the second launch reuses the first one's memory
		var in, out []device.Buffer
		doors := []door{make(door), make(door), make(door)}
		for i, n := range sizes {
			for _, list := range []*[]device.Buffer{&in, &out} {
				b, err := s.Alloc(shape.F32(n), device.Weight)
				if err != nil {
					t.Fatal(err)
				}
				*list = append(*list, b)
			}
			s.(device.Delayer).DelayRead(in[i], device.Event{Queue: doors[i], Seq: 1})
		}
		e, err := s.Launch(x, in, out, nil)
		if err != nil {
			t.Fatal(err)
		}
		for i := range sizes {
			if out[i].Ready().Done() || e.Done() {
				t.Fatalf("output %d is ready before its input is there", i)
			}
			close(doors[i])
			if err := out[i].Ready().Wait(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		if err := e.Wait(t.Context()); err != nil {
			t.Fatal(err)
		}
		if last := out[2].Ready(); last != e || s.Record() != e {
			t.Errorf("the last output is ready at %v, the launch ends at %v", last, e)
		}
		for _, b := range append(in, out...) {
			if err := b.Free(e); err != nil {
				t.Error(err)
			}
		}
	}
	x.Release()
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if err := d.Close(); err != nil {
		t.Error(err)
	}
}

// TestRunWakes: who waits for a launch on its caller's goroutine, and began to while it ran,
// is woken when it ends.
func TestRunWakes(t *testing.T) {
	started, opened := make(chan bool), make(chan bool)
	d := toy(t, func(_, _ [][]byte) error { close(started); <-opened; return nil })
	x, s, in, out := devicetest.Negation(t, d)
	ran, woken := make(chan error), make(chan error)
	go func() {
		_, ok, err := s.(device.Runner).Run(x, in, out, nil)
		if !ok {
			err = errors.Join(err, errors.New("it did not run"))
		}
		ran <- err
	}()
	<-started
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	e := out[0].Ready()
	go func() { woken <- e.Wait(ctx) }()
	time.Sleep(10 * time.Millisecond) // for the wait to begin
	if e.Done() {
		t.Error("the output is ready while the launch runs")
	}
	close(opened)
	for _, end := range []chan error{ran, woken} {
		if err := <-end; err != nil {
			t.Error(err)
		}
	}
	x.Release()
	for _, err := range []error{in[0].Free(e), out[0].Free(e), s.Close(), d.Close()} {
		if err != nil {
			t.Error(err)
		}
	}
}

// TestAwaitEndsTwice: waits whose context ends while their command does take no later wait
// with them.
func TestAwaitEndsTwice(t *testing.T) {
	d := toy(t, func(_, _ [][]byte) error { return nil })
	s, err := d.NewStream("s")
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}()
	for range 300 {
		opened := make(door)
		if err := s.WaitForEnd(device.Event{Queue: opened, Seq: 1}); err != nil {
			t.Fatal(err)
		}
		e := s.Record()
		ctx, cancel := context.WithCancel(t.Context())
		go cancel()
		go close(opened)
		if err := e.Wait(ctx); err == nil && !e.Done() {
			t.Fatal("a wait ended before its command")
		}
	}
}

// Only the streams that WantSpans names are told of.
func TestWantSpans(t *testing.T) {
	var told []string
	d, err := New(Config{
		Spec: device.Spec{ID: "host:0", Kind: "host", MemoryBytes: 1 << 20},
		Options: device.OpenOptions{
			OnSpan:    func(x device.Span) { told = append(told, x.Stream) },
			WantSpans: func(stream string) bool { return stream == "told" },
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	from, err := d.AllocHost(8)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"silent", "told"} {
		s, err := d.NewStream(name)
		if err != nil {
			t.Fatal(err)
		}
		b, err := s.Alloc(shape.F32(2), device.Activation)
		if err != nil {
			t.Fatal(err)
		}
		copied := s.CopyIn(b, from)
		if err := errors.Join(copied, s.Close(), b.Free(b.Ready())); err != nil {
			t.Error(err)
		}
	}
	if err := from.Free(); err != nil {
		t.Error(err)
	}
	if err := d.Close(); err != nil {
		t.Error(err)
	}
	if !slices.Equal(told, []string{"told"}) {
		t.Errorf("told of %v", told)
	}
}
