package host

import (
	"context"
	"strings"
	"testing"

	"github.com/berth-ml/berth/engine/device"
	"github.com/berth-ml/berth/engine/shape"
)

func TestForeignHostBuffer(t *testing.T) {
	d := toy(t, nil)
	s, err := d.NewStream("s")
	if err != nil {
		t.Fatal(err)
	}
	b, err := s.Alloc(shape.F32(1), device.Input)
	if err != nil {
		t.Fatal(err)
	}
	in, out := &mine{[]byte{1, 2, 3, 4}}, &mine{make([]byte, 4)}
	if err := s.CopyIn(b, in); err != nil {
		t.Fatal(err)
	}
	e, err := s.CopyOut(out, b)
	if err != nil {
		t.Fatal(err)
	}
	if err := e.Wait(context.Background()); err != nil || string(out.data) != "\x01\x02\x03\x04" {
		t.Errorf("%v, %v", out.data, err)
	}
	hold := &stuck{end: make(chan struct{})}
	if err := s.WaitFor(device.Event{Queue: hold, Seq: 1}); err != nil {
		t.Fatal(err)
	}
	if err := s.CopyIn(b, in); err != nil {
		t.Fatal(err)
	}
	if err := in.Free(); err != nil { // too early
		t.Fatal(err)
	}
	close(hold.end)
	if err := s.Record().Wait(context.Background()); err == nil || !strings.Contains(err.Error(), "freed before the copy") {
		t.Errorf("error %v", err)
	}
	for _, err := range []error{s.Close(), b.Free(), d.Close()} {
		if err != nil {
			t.Error(err)
		}
	}
}
