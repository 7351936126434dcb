package residency

import (
	"context"
	"errors"
	"slices"
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

// TestPlannedMoves: with a known order, a tensor that must leave goes after its last use, and comes back as soon as there is room:
// its copies are queued launches before others need the room, or it is read. The bytes that move are those of moves on demand.
func TestPlannedMoves(t *testing.T) {
	r := newRig(t, 1, rigOptions{}, capacity(4*64))
	var ts []*Tensor
	var launches []Launch
	for _, name := range []string{"a", "b", "c", "d", "e"} {
		ts = append(ts, r.declare(name, 64, device.Activation))
		launches = append(launches, Launch{Needs: []Need{{ts[len(ts)-1], 0, Write}}})
	}
	for i := range ts {
		x := ts[len(ts)-1-i]
		launches = append(launches, Launch{Needs: []Need{{x, 0, Read}}, Frees: []*Tensor{x}})
	}
	r.m.SetUses(r.m.NewUses(launches))
	for step := range 3 {
		var moved []string
		for i, x := range ts {
			r.write(x, 0, byte('a'+i))
			moved = append(moved, r.kinds())
		}
		for i := range ts {
			x := ts[len(ts)-1-i]
			r.mustRead(x, 0, byte('a'+len(ts)-1-i))
			if err := r.m.Drop(x); err != nil {
				t.Fatal(err)
			}
			moved = append(moved, r.kinds())
		}
		want := []string{
			"", "spill a fake:0>host; drop a fake:0>", "spill b fake:0>host; drop b fake:0>", "", "",
			"hit e fake:0>fake:0; drop e fake:0>",
			"copy-in b host>fake:0; hit d fake:0>fake:0; drop d fake:0>",
			"copy-in a host>fake:0; hit c fake:0>fake:0; drop c fake:0>",
			"hit b fake:0>fake:0; drop b fake:0>", "hit a fake:0>fake:0; drop a fake:0>",
		}
		if !slices.Equal(moved, want) {
			t.Errorf("step %d moved %q, want %q", step, moved, want)
		}
	}
	conserved(t, r)
}
