package admission

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"
)

// call is a call of Reserve.
type call struct {
	waited bool
	result chan error
	got    *Reservation
}

// err waits for the call.
func (c *call) err() error { return <-c.result }

// reserve starts a call, and waits until it is in the line or has its floors.
func reserve(t *testing.T, x *Floors, ctx context.Context, floors ...int64) *call {
	t.Helper()
	return claim(t, x, ctx, Claim{Floors: floors})
}

// claim is reserve of any claim.
func claim(t *testing.T, x *Floors, ctx context.Context, of Claim) *call {
	t.Helper()
	c, waits := &call{result: make(chan error, 1)}, make(chan struct{})
	go func() {
		var err error
		c.got, err = x.Reserve(ctx, of, func() { close(waits) })
		c.result <- err
	}()
	select {
	case <-waits:
		c.waited = true
	case err := <-c.result:
		c.result <- err
	case <-time.After(time.Minute):
		t.Fatal("a call neither waits nor returns")
	}
	return c
}

// Of those that need memory of the same device, the first goes first.
func TestFloorsInOrder(t *testing.T) {
	x, ctx := NewFloors([]int64{10, 10}), t.Context()
	if err := reserve(t, x, ctx, 8).err(); err != nil {
		t.Fatal(err)
	}
	over, cancel := context.WithCancelCause(ctx)
	large := reserve(t, x, over, 9)
	small := reserve(t, x, ctx, 1)
	if err := reserve(t, x, ctx, 0, 9).err(); err != nil {
		t.Fatal(err)
	}
	if _, waiting := x.Reserved(); waiting != 2 {
		t.Errorf("%d wait, expected 2: the small one came after the large one", waiting)
	}
	stop := errors.New("enough")
	cancel(stop)
	if err := large.err(); !errors.Is(err, stop) {
		t.Errorf("got %v", err)
	}
	if err := small.err(); err != nil {
		t.Error(err)
	}
	if have, _ := x.Reserved(); have[0] != 9 || have[1] != 9 {
		t.Errorf("%d bytes are reserved", have)
	}
}

// Close ends those that wait, and later calls.
func TestClosedFloors(t *testing.T) {
	x, ctx := NewFloors([]int64{10}), t.Context()
	ten := reserve(t, x, ctx, 10)
	if err := ten.err(); err != nil {
		t.Fatal(err)
	}
	waits := reserve(t, x, ctx, 1)
	closed := errors.New("closed")
	x.Close(closed)
	if err := waits.err(); !errors.Is(err, closed) {
		t.Errorf("got %v", err)
	}
	x.Release(ten.got)
	if _, err := x.Reserve(ctx, Claim{Floors: []int64{1}}, nil); !errors.Is(err, closed) {
		t.Errorf("got %v", err)
	}
}

// The loss of a device ends the calls that wait for its memory, and lets those behind
// them go on.
func TestLostFloors(t *testing.T) {
	x, ctx := NewFloors([]int64{10, 10}), t.Context()
	first := reserve(t, x, ctx, 10, 5)
	if err := first.err(); err != nil {
		t.Fatal(err)
	}
	both, other := reserve(t, x, ctx, 1, 6), reserve(t, x, ctx, 0, 5)
	lost := errors.New("lost")
	x.Lose(0, lost)
	if err := both.err(); !errors.Is(err, lost) {
		t.Errorf("got %v", err)
	}
	if err := other.err(); err != nil {
		t.Error(err)
	}
	x.Release(first.got)
	if _, err := x.Reserve(ctx, Claim{Floors: []int64{1}}, nil); !errors.Is(err, lost) {
		t.Errorf("got %v", err)
	}
}

// TestCommonFloors: what is common is reserved once, from the first user to the last. Who waits with it needs
// it anew, once those that had it have gone.
func TestCommonFloors(t *testing.T) {
	x, ctx, base := NewFloors([]int64{10, 10}), t.Context(), NewCommon([]int64{0, 4})
	reserved := func(want ...int64) {
		t.Helper()
		if have, _ := x.Reserved(); !slices.Equal(have, want) {
			t.Errorf("%d bytes are reserved, expected %d", have, want)
		}
	}
	var users []*Reservation
	for _, floors := range [][]int64{{1, 2}, {1, 3}} {
		c := claim(t, x, ctx, Claim{Floors: floors, Common: base})
		if err := c.err(); err != nil || c.waited {
			t.Fatal(err, c.waited)
		}
		users = append(users, c.got)
	}
	reserved(2, 9)
	large := reserve(t, x, ctx, 0, 8)
	third := claim(t, x, ctx, Claim{Floors: []int64{1}, Common: base}) // it needs nothing of the device that another one waits for
	if !large.waited || third.waited {
		t.Fatalf("who needs too much waits is %v; a user of what is reserved waits is %v", large.waited, third.waited)
	}
	if err := third.err(); err != nil {
		t.Fatal(err)
	}
	x.Release(users[0])
	x.Release(users[1])
	reserved(1, 4)
	x.Release(third.got)
	if err := large.err(); err != nil {
		t.Fatal(err)
	}
	reserved(0, 8)
	over, cancel := context.WithCancelCause(ctx)
	third = claim(t, x, over, Claim{Floors: []int64{0, 1}, Common: base})
	if !third.waited {
		t.Error("what is common is not needed anew once its users have gone")
	}
	stop := errors.New("enough")
	cancel(stop)
	if err := third.err(); !errors.Is(err, stop) {
		t.Errorf("got %v", err)
	}
	lost := errors.New("lost")
	x.Lose(1, lost)
	if _, err := x.Reserve(ctx, Claim{Floors: []int64{1}, Common: base}, nil); !errors.Is(err, lost) {
		t.Errorf("without the device of what is common: %v", err)
	}
	x.Release(large.got)
	reserved(0, 0)
}

// TestWanted: who takes turns is asked for its memory where others that take turns wait for it and would get it.
func TestWanted(t *testing.T) {
	base := NewCommon([]int64{0, 4})
	for name, c := range map[string]struct {
		held   []Claim // the first is asked
		waits  []Claim
		wanted bool
	}{
		"nobody waits":               {held: []Claim{{Floors: []int64{6}, Turns: true}}},
		"one waits":                  {held: []Claim{{Floors: []int64{6}, Turns: true}}, waits: []Claim{{Floors: []int64{6}, Turns: true}}, wanted: true},
		"one waits that takes none":  {held: []Claim{{Floors: []int64{6}, Turns: true}}, waits: []Claim{{Floors: []int64{6}}}},
		"behind one that takes none": {held: []Claim{{Floors: []int64{6}, Turns: true}}, waits: []Claim{{Floors: []int64{6}}, {Floors: []int64{6}, Turns: true}}},
		"for another device":         {held: []Claim{{Floors: []int64{6}, Turns: true}, {Floors: []int64{0, 6}}}, waits: []Claim{{Floors: []int64{0, 6}, Turns: true}}},
		"for both":                   {held: []Claim{{Floors: []int64{6}, Turns: true}, {Floors: []int64{0, 6}, Turns: true}}, waits: []Claim{{Floors: []int64{5, 5}, Turns: true}}, wanted: true},
		"in vain":                    {held: []Claim{{Floors: []int64{4}, Turns: true}, {Floors: []int64{4}}}, waits: []Claim{{Floors: []int64{8}, Turns: true}}},
		"with two others":            {held: []Claim{{Floors: []int64{4}, Turns: true}, {Floors: []int64{4}, Turns: true}}, waits: []Claim{{Floors: []int64{8}, Turns: true}}, wanted: true},
		"what is common":             {held: []Claim{{Floors: []int64{0, 3}, Common: base, Turns: true}}, waits: []Claim{{Floors: []int64{0, 4}, Common: base, Turns: true}}, wanted: true},
		"what is common, and stays":  {held: []Claim{{Floors: []int64{0, 1}, Common: base, Turns: true}, {Floors: []int64{0, 3}, Common: base}}, waits: []Claim{{Floors: []int64{0, 3}, Common: base, Turns: true}}, wanted: true},
		"all but what is common":     {held: []Claim{{Floors: []int64{0, 1}, Common: base, Turns: true}, {Common: base}}, waits: []Claim{{Floors: []int64{0, 7}, Turns: true}}},
	} {
		t.Run(name, func(t *testing.T) {
			x, ctx := NewFloors([]int64{10, 10}), t.Context()
			var held []*call
			for _, of := range c.held {
				held = append(held, claim(t, x, ctx, of))
				if held[len(held)-1].waited {
					t.Fatal("one of those that are to have memory waits")
				}
			}
			over, cancel := context.WithCancel(ctx)
			defer cancel()
			var line []*call
			for _, of := range c.waits {
				line = append(line, claim(t, x, over, of))
				if !line[len(line)-1].waited {
					t.Fatal("one of those that are to wait does not")
				}
			}
			if got := held[0].got.Wanted(); got != c.wanted {
				t.Fatalf("wanted is %v, expected %v", got, c.wanted)
			}
			for _, h := range held { // once all that take turns have given theirs, the first gets it
				if c.wanted && h.got.Turns {
					x.Release(h.got)
				}
			}
			if c.wanted && line[0].err() != nil {
				t.Error("it does not get what was wanted for it")
			}
			cancel()
			for _, w := range line[min(1, len(line)):] {
				_ = w.err()
			}
			if !c.wanted && len(line) > 0 {
				_ = line[0].err()
			}
			for _, h := range held {
				if !c.wanted || !h.got.Turns {
					x.Release(h.got)
				}
			}
			if c.wanted {
				x.Release(line[0].got)
			}
			if have, waiting := x.Reserved(); have[0] != 0 || have[1] != 0 || waiting != 0 {
				t.Errorf("%d bytes are left, and %d wait", have, waiting)
			}
		})
	}
}

// TestDue: who has had its turn gives its memory away once all have had theirs whose memory is needed.
func TestDue(t *testing.T) {
	x, ctx := NewFloors([]int64{10}), t.Context()
	var held []*Reservation
	for range 2 {
		c := claim(t, x, ctx, Claim{Floors: []int64{4}, Turns: true})
		if err := c.err(); err != nil || c.waited {
			t.Fatal(err, c.waited)
		}
		held = append(held, c.got)
	}
	large := claim(t, x, ctx, Claim{Floors: []int64{8}, Turns: true})
	if x.Due(held[0]) || x.Yield(held[0]) {
		t.Error("the other one still has its turn")
	}
	if !x.Due(held[1]) || !x.Due(held[0]) {
		t.Error("both have had their turn")
	}
	if !x.Yield(held[0]) || x.Yield(held[0]) || !x.Yield(held[1]) {
		t.Error("each gives its memory away once")
	}
	if err := large.err(); err != nil {
		t.Fatal(err)
	}
	if x.Due(large.got); !x.Yield(large.got) {
		t.Error("both of the others get the memory")
	}
	x.Release(large.got)
	third := claim(t, x, ctx, Claim{Floors: []int64{8}, Turns: true})
	if x.Due(held[0]) || !held[0].Wanted() {
		t.Error("a new turn of the other one has begun")
	}
	x.Release(held[1])
	if !x.Due(held[0]) || !x.Yield(held[0]) {
		t.Error("the other one has left")
	}
	if err := errors.Join(third.err(), ctx.Err()); err != nil {
		t.Fatal(err)
	}
	x.Release(third.got)
	x.Release(held[0])
	if have, waiting := x.Reserved(); have[0] != 0 || waiting != 0 {
		t.Errorf("%d bytes are left, and %d wait", have, waiting)
	}
}

// TestEndOfWait: the end of its context, the loss of a device, Close and Release end the wait for a turn.
func TestEndOfWait(t *testing.T) {
	over := errors.New("over")
	for name, x := range map[string]struct {
		end  func(x *Floors, r *Reservation, cancel context.CancelCauseFunc)
		want error
	}{
		"context": {func(_ *Floors, _ *Reservation, cancel context.CancelCauseFunc) { cancel(over) }, over},
		"loss":    {func(x *Floors, _ *Reservation, _ context.CancelCauseFunc) { x.Lose(0, over) }, over},
		"close":   {func(x *Floors, _ *Reservation, _ context.CancelCauseFunc) { x.Close(over) }, over},
		"release": {func(x *Floors, r *Reservation, _ context.CancelCauseFunc) { x.Release(r) }, errReleased},
	} {
		t.Run(name, func(t *testing.T) {
			f := NewFloors([]int64{10})
			var rs [2]*Reservation
			for i := range rs {
				var err error
				if rs[i], err = f.Join(Claim{Floors: []int64{6}, Turns: true}); err != nil {
					t.Fatal(err)
				}
			}
			if !f.Yield(rs[0]) {
				t.Fatal("it is not due")
			}
			if err := f.Wait(t.Context(), rs[1]); err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithCancelCause(t.Context())
			defer cancel(nil)
			result := make(chan error, 1)
			go func() { result <- f.Wait(ctx, rs[0]) }()
			x.end(f, rs[0], cancel)
			if err := <-result; !errors.Is(err, x.want) {
				t.Errorf("got %v", err)
			}
			if name != "context" && name != "release" && f.Yield(rs[1]) {
				t.Error("who has memory gives it away, and never gets it again")
			}
			f.Release(rs[0])
			f.Release(rs[1])
			if have, waiting := f.Reserved(); have[0] != 0 || waiting != 0 {
				t.Errorf("%d bytes are left, and %d wait", have, waiting)
			}
		})
	}
}
