package residency

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/berth-ml/berth/engine/device"
)

func TestPrefetch(t *testing.T) {
	r := newRig(t, 1, rigOptions{}, capacity(12))
	w, v := r.declare("w", 8, device.Weight), r.declare("v", 8, device.Weight)
	r.fill(w, 'a')
	r.fill(v, 'b')
	needs := []Need{{w, 0, Read}, {v, 0, Read}}
	if err := r.m.Prefetch(short(t), needs); err != nil {
		t.Fatal(err)
	}
	if got, want := r.kinds(), "copy-in w host>fake:0"; got != want {
		t.Errorf("prefetch moved %q, want %q: v has no room", got, want)
	}
	r.mustRead(w, 0, 'a')
	r.mustRead(v, 0, 'b')
	if got, want := r.kinds(), "hit w fake:0>fake:0; drop w fake:0>; copy-in v host>fake:0"; got != want {
		t.Errorf("moved %q, want %q", got, want)
	}
}

// TestMoveIn: a tensor that was moved in is on its device alone, the host has no
// more bytes than may be on their way, and a tensor without room stays.
func TestMoveIn(t *testing.T) {
	r := newRig(t, 1, rigOptions{manager: ManagerOptions{StagingBytes: 12}}, capacity(16))
	var ts []*Tensor
	for _, name := range []string{"a", "b", "c"} {
		x := r.declare(name, 8, device.Weight)
		r.fill(x, name[0])
		ts = append(ts, x)
	}
	free := r.devs[0].stream("copy-in").hold()
	move := func(ctx context.Context, x *Tensor) error { return r.m.MoveIn(ctx, []Need{{x, 0, Read}}) }
	if err := move(short(t), ts[0]); err != nil {
		t.Fatal(err)
	}
	soon, cancel := context.WithTimeout(context.Background(), 20*time.Millisecond)
	defer cancel()
	if err := move(soon, ts[1]); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("16 bytes on their way, 12 may be: %v", err)
	}
	free()
	for _, x := range ts {
		if err := move(short(t), x); err != nil {
			t.Fatal(err)
		}
	}
	for i, want := range []string{"fake:0", "fake:0", "host"} {
		if got := ts[i].Location(); got != want {
			t.Errorf("%v is at %s, want %s", ts[i], got, want)
		}
	}
	for i, x := range ts {
		r.mustRead(x, 0, "abc"[i])
	}
	conserved(t, r)
}
