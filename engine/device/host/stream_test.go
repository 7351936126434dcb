package host

import (
	"context"
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
			s.(device.WriteDelayer).DelayWrite(b, device.Event{Queue: doors[i], Seq: 1})
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
