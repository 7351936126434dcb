package residency

import (
	"bytes"
	"errors"
	"testing"
	"time"

	"github.com/berth-ml/berth/engine/device"
)

func TestFillWith(t *testing.T) {
	r := newRig(t, 1, rigOptions{})
	x := r.declare("x", 4, device.Weight)
	if err := r.m.FillWith(x, func(dst []byte) error { copy(dst, []byte{0, 7, 0, 0}); return nil }); err != nil {
		t.Fatal(err)
	}
	boom := errors.New("no such file")
	if err := r.m.FillWith(x, func(dst []byte) error { dst[0] = 9; return boom }); !errors.Is(err, boom) {
		t.Errorf("got %v", err)
	}
	err := r.m.View(x, func(b []byte) error {
		if !bytes.Equal(b, []byte{0, 7, 0, 0}) {
			t.Errorf("contents are %v", b)
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}

// TestFeedDoubleBuffers: new input is copied while the old one is computed on,
// to a second buffer; when the old one is free it is reused.
func TestFeedDoubleBuffers(t *testing.T) {
	r := newRig(t, 1, rigOptions{})
	x := r.declare("x", 8, device.Input)
	hb := []device.HostBuffer{r.hostBuffer(8, 'a'), r.hostBuffer(8, 'b')}
	feed := func(i int) {
		if err := r.m.Feed(x, hb[i]); err != nil {
			t.Fatal(err)
		}
	}
	feed(0)
	if _, ok := r.m.FeedDone(x); ok {
		t.Error("the buffer was handed back before it was copied")
	}
	free := r.compute[0].(*fakeStream).hold()
	r.mustRead(x, 0, 'a')
	ev, ok := r.m.FeedDone(x)
	if !ok || ev.Wait(short(t)) != nil {
		t.Fatal("the copy-in waited for the task")
	}
	copy(hb[0].Bytes(), pattern(8, 'c'))
	feed(1)
	if err := r.m.Prefetch(short(t), []Need{{x, 0, Read}}); err != nil {
		t.Fatal(err)
	}
	if ev, ok := r.m.FeedDone(x); !ok || ev.Wait(short(t)) != nil {
		t.Fatal("the prefetch waited for the task that reads the old input")
	}
	if n := r.devs[0].Stats().Live; n != 8 {
		t.Errorf("%d bytes are live, want the new input's 8", n)
	}
	r.mustRead(x, 0, 'b')
	free()
	if err := r.compute[0].Record().Wait(short(t)); err != nil {
		t.Fatal(err)
	}
	feed(0)
	r.mustRead(x, 0, 'c')
	want := "copy-in x host>fake:0; drop x fake:0>; copy-in x host>fake:0; hit x fake:0>fake:0; drop x fake:0>; copy-in x host>fake:0"
	if got := r.kinds(); got != want {
		t.Errorf("moved %q, want %q", got, want)
	}
}

// TestFeedGoesInOnce: a second device gets the batch from the first.
func TestFeedGoesInOnce(t *testing.T) {
	r := newRig(t, 2, rigOptions{})
	x := r.declare("x", 8, device.Input)
	if err := r.m.Feed(x, r.hostBuffer(8, 'a')); err != nil {
		t.Fatal(err)
	}
	r.mustRead(x, 0, 'a')
	r.mustRead(x, 1, 'a')
	if got, want := r.kinds(), "copy-in x host>fake:0; peer x fake:0>fake:1"; got != want {
		t.Errorf("moved %q, want %q", got, want)
	}
	if _, ok := r.m.FeedDone(x); !ok {
		t.Error("not handed back")
	}
	if got := x.Location(); got != "fake:0, clean on fake:1" {
		t.Errorf("after the hand-back x is at %s", got)
	}
}

// TestLastCopyOfFedBuffer: the last copy of a fed buffer stands for all.
func TestLastCopyOfFedBuffer(t *testing.T) {
	r := newRig(t, 2, rigOptions{}, noPeers)
	x := r.declare("x", 8, device.Input)
	if err := r.m.Feed(x, r.hostBuffer(8, 'a')); err != nil {
		t.Fatal(err)
	}
	free := r.devs[0].stream("copy-in").hold()
	r.mustRead(x, 0, 'a')
	r.mustRead(x, 1, 'a')
	ev, ok := r.m.FeedDone(x)
	time.Sleep(10 * time.Millisecond)
	if !ok || ev.Done() {
		t.Error("handed back while the first copy is held")
	}
	free()
	if err := ev.Wait(short(t)); err != nil {
		t.Error(err)
	}
}
