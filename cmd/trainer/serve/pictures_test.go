package serve

import (
	"bytes"
	"context"
	"errors"
	"image"
	"image/png"
	"strings"
	"testing"

	"github.com/berth-ml/berth/datasets"
	"github.com/berth-ml/berth/engine/shape"
)

// An image holds the memory that decoding takes while it is decoded, and is refused where a request may not have that.
func TestMemoryOfImages(t *testing.T) {
	info := &datasets.Info{Inputs: []datasets.Field{{Name: "input", Meta: shape.F32(1, 2, 2)}}, Pictures: &datasets.Pictures{Fit: "crop", Mean: []float64{0.5}, Std: []float64{0.25}}}
	o := &OpenOptions{}
	o.Limits = Limits{Requests: 4, Memory: 16 << 20, Share: 50}
	o.Service.Texts, o.Service.Queue = 4, 4
	g := newGate(o)
	p, other := g.enter("192.0.2.1:1"), g.enter("192.0.2.1:2")
	defer p.leave()
	x := &pictureReader{info, p, 1000}
	if refused := p.hold(use{requests: 1, memory: x.base}); refused != nil {
		t.Fatal(refused)
	}
	square := func(side int) []byte {
		var b bytes.Buffer
		if err := png.Encode(&b, image.NewGray(image.Rect(0, 0, side, side))); err != nil {
			t.Fatal(err)
		}
		return b.Bytes()
	}
	sample := make([]float32, 4)
	if err := x.read(t.Context(), "", square(300), sample); err != nil || sample[3] != -2 {
		t.Errorf("%v, sample %v", err, sample)
	}
	if g.memory() != x.base {
		t.Errorf("%d bytes are held, want %d", g.memory(), x.base)
	}
	if err := x.read(t.Context(), "inputs[3]", square(600), sample); err == nil || !strings.Contains(err.Error(), "inputs[3]: an image of 600×600 pixels takes 11.1 MiB of memory while it is decoded, and a request may take 7.0 MiB") {
		t.Errorf("a large image: %v", err)
	}
	if refused := other.hold(use{requests: 1, memory: 6 << 20}); refused != nil {
		t.Fatal(refused)
	}
	if err := x.read(t.Context(), "", square(300), sample); err == nil || !strings.Contains(err.Error(), "the requests of your address take all memory") {
		t.Errorf("beside another request: %v", err)
	}
	other.leave()
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errTime)
	if _, err := x.readFiles(ctx, [][]byte{square(300)}); !errors.Is(err, errTime) {
		t.Errorf("once the request is over: %v", err)
	}
}

// One photo may have more bytes than a body.
func TestTooLongForImages(t *testing.T) {
	s := &desk{costs: &costs{pictures: true}}
	s.limits.Body = 4 << 20
	const want = "the body has more than 4.0 MiB: send fewer or smaller images in a request, or start the server with a larger --max-body"
	if p := s.tooLong(); p.Text != want {
		t.Errorf("%s, want %s", p.Text, want)
	}
}
