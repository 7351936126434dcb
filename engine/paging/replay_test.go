package paging

import (
	"math/rand"
	"slices"
	"testing"
)

// chain is a network of n layers: forward, backward, update. Each layer has a
// weight, and an activation that its backward reads.
func chain(n int, weight, activation int64) *Trace {
	t := &Trace{}
	add := func(name string, bytes int64, lasting, fed bool) int {
		t.Objects = append(t.Objects, Object{name, bytes, lasting, fed})
		return len(t.Objects) - 1
	}
	x := add("x", activation, false, true)
	var ws, as []int
	for range n {
		ws = append(ws, add("w", weight, true, false))
		as = append(as, add("a", activation, false, false))
	}
	in := x
	for i := range n {
		t.Launches = append(t.Launches, Launch{Uses: []Use{{in, true, false}, {ws[i], true, false}, {as[i], false, true}}})
		in = as[i]
	}
	for i := n - 1; i >= 0; i-- {
		before := x
		if i > 0 {
			before = as[i-1]
		}
		t.Launches = append(t.Launches, Launch{Uses: []Use{{before, true, false}, {ws[i], true, true}, {as[i], true, false}}, Frees: []int{as[i]}})
	}
	last := &t.Launches[len(t.Launches)-1]
	last.Frees = append(last.Frees, x)
	return t
}

func TestReplayWithoutALimitMovesWhatIsFed(t *testing.T) {
	tr := chain(4, 128, 64)
	if err := tr.Check(); err != nil {
		t.Fatal(err)
	}
	r := Replay(tr, 0)
	want := Result{Peak: 4*128 + 5*64, Floor: 128 + 2*64, Fits: true, Fed: 64}
	if r != want {
		t.Errorf("replay %+v, want %+v", r, want)
	}
}

func TestReplayRoundsUp(t *testing.T) {
	tr := chain(1, 1, 1)
	tr.Launches[0].Scratch = 65
	if r := Replay(tr, 0); r.Peak != 3*64+128 || r.Floor != r.Peak {
		t.Errorf("peak %d, floor %d, want %d", r.Peak, r.Floor, 3*64+128)
	}
}

func TestReplayAtTheFloorMovesEverythingThatMustMove(t *testing.T) {
	tr := chain(2, 128, 64)
	r := Replay(tr, tr.Floor())
	// The weights take turns: each leaves changed, and comes back, once a step.
	// The last backward reads x again, which has a copy on the host.
	if !r.Fits || r.Peak > tr.Floor() || r.Loaded != 2*128+64 || r.Spilled != 2*128 {
		t.Errorf("at the floor: %+v", r)
	}
}

func TestReplayBelowTheFloorDoesNotFit(t *testing.T) {
	tr := chain(2, 128, 64)
	if r := Replay(tr, tr.Floor()-1); r.Fits || r.Floor != tr.Floor() {
		t.Errorf("below the floor: %+v", r)
	}
}

func TestReplayOverwritesWithoutCopies(t *testing.T) {
	// Scratch pushes a passing object out between two writes of it.
	tr := &Trace{
		Objects: []Object{{Name: "p", Bytes: 64}},
		Launches: []Launch{
			{Uses: []Use{{0, false, true}}},
			{Scratch: 64},
			{Uses: []Use{{0, false, true}}},
		},
	}
	if r := Replay(tr, 64); r.Moved() != 0 || r.Peak != 64 {
		t.Errorf("moved %d bytes, peak %d", r.Moved(), r.Peak)
	}
}

// What a launch reads is loaded while those before run, if both fit, and as many bytes move.
func TestReplayLoadsAhead(t *testing.T) {
	tr := chain(24, 64, 128)
	limit := Replay(tr, 0).Peak / 2
	p, early := newPolicy(tr, limit)
	now := replay(tr, limit, Policy{Spare: p.Spare})
	if now.Waits == 0 || early.Waits != 0 || early.Peak > limit || early.Moved() != now.Moved() {
		t.Errorf("loads on demand: %+v, as planned: %+v", now, early)
	}
	if p := NewPolicy(tr, 0); p.Leaves != nil || p.Loads != nil {
		t.Errorf("moves are planned without a limit: %+v", p)
	}
}

func TestChoiceKeepsWhatNeedNotLeave(t *testing.T) {
	c := []Candidate{
		{Object: 0, Bytes: 64, Distance: 9, Copies: 1},
		{Object: 1, Bytes: 256, Distance: 12, Copies: 2},
		{Object: 2, Bytes: 64, Distance: 1, Copies: 0},
		{Object: 3, Bytes: 64, Distance: 2, Copies: 1},
	}
	// 2 moves nothing, 0 is free for 9 launches a copy, 1 for 6, 3 for 2. The best
	// is at the end.
	for _, x := range []struct {
		bytes int64
		want  []int
	}{{64, []int{2}}, {100, []int{0, 2}}, {129, []int{1}}, {300, []int{1, 2}}, {448, []int{3, 1, 0, 2}}} {
		got, ok := choose(slices.Clone(c), x.bytes)
		var objects []int
		for _, v := range got {
			objects = append(objects, v.Object)
		}
		if !ok || !slices.Equal(objects, x.want) {
			t.Errorf("%d bytes: %v, want %v", x.bytes, objects, x.want)
		}
	}
	if _, ok := choose(c, 449); ok {
		t.Error("more is freed than there is")
	}
}

func TestReplayKeepsItsLimit(t *testing.T) {
	for seed := range int64(300) {
		tr := randomTrace(rand.New(rand.NewSource(seed)), 8, 10)
		if err := tr.Check(); err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		free := Replay(tr, 0)
		if free.Moved() != 0 {
			t.Fatalf("seed %d: %d bytes moved without a limit", seed, free.Moved())
		}
		moved := int64(-1)
		for limit := free.Peak; limit >= free.Floor; limit -= Align {
			r := Replay(tr, limit)
			if !r.Fits || r.Peak > limit || r.Fed != free.Fed {
				t.Fatalf("seed %d: limit %d: %+v", seed, limit, r)
			}
			if moved < 0 && r.Moved() != 0 {
				t.Fatalf("seed %d: %d bytes moved at the unconstrained peak", seed, r.Moved())
			}
			moved = r.Moved()
		}
	}
}

// randomTrace makes a valid trace.
func randomTrace(rng *rand.Rand, objects, launches int) *Trace {
	t := &Trace{}
	whole := make([]bool, objects)
	for i := range objects {
		o := Object{Bytes: Align * int64(1+rng.Intn(3)), Lasting: rng.Intn(3) == 0}
		o.Fed = !o.Lasting && rng.Intn(4) == 0
		whole[i] = o.Lasting || o.Fed
		t.Objects = append(t.Objects, o)
	}
	for range launches {
		l := Launch{Scratch: Align * int64(rng.Intn(2))}
		for _, o := range rng.Perm(objects)[:1+rng.Intn(3)] {
			u := Use{Object: o, Read: whole[o] && rng.Intn(3) > 0}
			u.Write = !u.Read || rng.Intn(3) == 0
			whole[o] = true
			l.Uses = append(l.Uses, u)
			if !t.Objects[o].Lasting && rng.Intn(4) == 0 {
				l.Frees = append(l.Frees, o)
				whole[o] = false
			}
		}
		t.Launches = append(t.Launches, l)
	}
	return t
}
