package saver_test

import (
	"strings"
	"testing"

	"github.com/berth-ml/berth/checkpoint/saver"
	"github.com/berth-ml/berth/engine/device/host"
	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/engine/shape"
)

func TestBound(t *testing.T) {
	if b := saver.BoundOf(5<<20, false, 1, 0); b != 5<<20 {
		t.Errorf("asked for: %d", b)
	}
	if b := saver.BoundOf(0, true, 1<<62, 0); b != 0 || b.TxBytes() != 0 || b.ChunkBytes() != 0 {
		t.Errorf("the whole state: %d", b)
	}
	if b := saver.BoundOf(0, false, 1<<62, 0); b <= 0 {
		t.Errorf("a state larger than memory: %d", b)
	}
	if b := saver.BoundOf(0, false, 64, 0); b != 0 {
		t.Errorf("a small state: %d", b)
	}
	if b := saver.BoundOf(0, false, 64<<20, 128<<20); b != 32<<20 {
		t.Errorf("within 128 MiB of host memory: %d", b)
	}
	if b := saver.BoundOf(0, false, 32<<20, 128<<20); b != 0 {
		t.Errorf("a state that is a quarter of host memory: %d", b)
	}
	free, err := host.Available()
	if b := saver.BoundOf(0, false, free, 0); err == nil && (b <= 0 || int64(b) > free/2) {
		t.Errorf("a state as large as the %d bytes that are free: %d", free, b)
	}
	for _, b := range []saver.Bound{1 << 20, 1048590, 256 << 20} {
		if tx, chunk := b.TxBytes(), int64(b.ChunkBytes()); 3*tx >= int64(b) || chunk > tx || chunk%8 != 0 || chunk == 0 {
			t.Errorf("%d: transactions of %d bytes, chunks of %d", b, tx, chunk)
		}
	}
}

// One variable that takes more than the area is told.
func TestExceeded(t *testing.T) {
	vars := []*graph.Value{{Name: "small", Meta: shape.F32(10)}, {Name: "wide", Meta: shape.F32(1 << 20)}}
	for b, want := range map[saver.Bound]string{
		1 << 20:  "takes up to 5 MiB of host memory and not checkpoint.staging's 1, since wide",
		64 << 20: "",
		0:        "",
	} {
		if got := b.Exceeded(vars); !strings.Contains(got, want) || want == "" && got != "" {
			t.Errorf("%d: %q, want %q", b, got, want)
		}
	}
	if got := saver.Bound(1 << 20).Exceeded(nil); got != "" {
		t.Errorf("no variables: %q", got)
	}
}
