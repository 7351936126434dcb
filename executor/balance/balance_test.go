package balance

import (
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/berth-ml/berth/engine/device"
)

// run takes steps of replicas with these times for a microbatch, and gives the shares after each change.
func run(b *Balancer, steps int, seconds ...float64) (changes [][]int) {
	took := make([]float64, len(seconds))
	for range steps {
		for r, s := range seconds {
			took[r] = s * float64(b.Shares()[r])
		}
		b.Took(took)
		if shares, ok := b.Propose(); ok {
			changes = append(changes, slices.Clone(shares))
			b.Take(0)
		}
	}
	return changes
}

func same(t *testing.T, got [][]int, want ...[]int) {
	t.Helper()
	if !slices.EqualFunc(got, want, slices.Equal) {
		t.Errorf("shares become %v, want %v", got, want)
	}
}

func TestShares(t *testing.T) {
	b := New([]int{8, 8})
	same(t, run(b, 30, 1, 1))
	same(t, run(b, 30, 1, 1.1)) // 8% are not worth a change
	same(t, run(b, 30, 1, 100), []int{15, 1})
	same(t, run(b, 30, 1, 1), []int{8, 8}) // it has recovered
	same(t, run(b, 30, 1, 2), []int{11, 5})
	same(t, run(New([]int{4, 3, 3}), 9, 2, 1, 3), []int{3, 6, 1})
	same(t, run(New([]int{2, 2}), 9, 0, 0)) // a device that computes nothing
}

// Much is believed soon, little late, and a single step that took long never.
func TestEvidence(t *testing.T) {
	b := New([]int{8, 8})
	same(t, run(b, 2, 1, 9))
	same(t, run(b, 1, 1, 9), []int{15, 1})
	b = New([]int{8, 8})
	same(t, run(b, 7, 1, 1.3)) // 9.1 in place of 10.4 save 12.5%
	same(t, run(b, 1, 1, 1.3), []int{9, 7})
	b = New([]int{8, 8})
	for range 20 {
		same(t, run(b, 3, 1, 1))
		same(t, run(b, 1, 1, 9))
	}
}

// A change that takes longer than it saves is not made again.
func TestCost(t *testing.T) {
	b := New([]int{8, 8})
	for range 6 { // two steps a sample
		b.Took([]float64{8e-3, 72e-3})
	}
	if shares, ok := b.Propose(); !ok || !slices.Equal(shares, []int{15, 1}) {
		t.Fatalf("shares become %v", shares)
	}
	b.Take(10 * time.Second) // 15 ms in place of 8 save 7 s in a thousand steps
	same(t, run(b, 30, 1e-3, 1e-3))
	same(t, run(b, 20, 1e-1, 1e-1), []int{8, 8})
}

// Short steps are measured together, by the fastest of them: a replica that is stopped now and then is not slow, for however
// long it is stopped.
func TestShortSteps(t *testing.T) {
	b := New([]int{8, 8})
	for range 100 {
		same(t, run(b, 1, 1e-3, 9e-3)) // a stop for some hundredths of a second
		same(t, run(b, 2, 9e-3, 1e-3))
		same(t, run(b, 2, 1e-3, 1e-3))
	}
	if run(b, 400, 1e-3, 9e-3); !slices.Equal(b.Shares(), []int{15, 1}) {
		t.Errorf("with a replica that stays slow, shares become %v", b.Shares())
	}
}

// Where speeds change all the time, shares change ever more rarely.
func TestChangesBecomeRare(t *testing.T) {
	b, changes := New([]int{8, 8}), 0
	for range 100 {
		changes += len(run(b, 10, 1, 9)) + len(run(b, 10, 9, 1))
	}
	if changes < 10 || changes > 40 {
		t.Errorf("%d changes in 2000 samples", changes)
	}
}

// Without memory, a replica has as many microbatches as fit.
func TestRefused(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(2, 40).Draw(t, "microbatches of each")
		fits := rapid.IntRange(n, 2*n).Draw(t, "most")
		b := New([]int{n, n})
		for range 9 {
			b.Took([]float64{float64(n), 1e3 * float64(n)})
		}
		shares, ok := b.Propose()
		for ok && shares[0] > fits {
			shares, ok = b.Refuse(0)
		}
		switch most := min(fits, 2*n-1); {
		case ok && (shares[0]+shares[1] != 2*n || shares[0] <= n || n < 8 && shares[0] != most):
			t.Fatalf("%d fit, and %v are proposed", fits, shares)
		case !ok && fits >= n+max(2, n/4):
			t.Fatalf("%d fit, and nothing is proposed", fits)
		case ok:
			b.Take(0)
			if shares[0] == fits && fits < 2*n-1 && !b.Full(0, shares[0]) {
				t.Fatal("a full replica says it is not")
			}
		}
	})
}

// Without memory for any others, proposals become rare.
func TestPauses(t *testing.T) {
	b, proposals := New([]int{2, 2}), 0
	for range 1000 {
		b.Took([]float64{2, 200})
		if _, ok := b.Propose(); ok {
			proposals++
			if _, ok = b.Refuse(1); ok {
				t.Fatal("another is proposed, and the replica that lacks memory is to give all it can")
			}
		}
	}
	if proposals < 3 || proposals > 8 {
		t.Errorf("%d proposals in 1000 steps", proposals)
	}
}

// Whatever is measured, each replica keeps a microbatch, and a proposal never takes longer.
func TestAnyTimes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		shares := rapid.SliceOfN(rapid.IntRange(1, 9), 2, 8).Draw(t, "shares")
		b, all := New(shares), 0
		for _, s := range shares {
			all += s
		}
		for range rapid.IntRange(1, 30).Draw(t, "steps") {
			took := rapid.SliceOfN(rapid.Float64Range(0, 10), len(shares), len(shares)).Draw(t, "took")
			b.Took(took)
			if next, ok := b.Propose(); ok {
				sum := 0
				for _, s := range next {
					sum += s
				}
				if sum != all || slices.Min(next) < 1 || b.passes(next) >= b.passes(b.shares) {
					t.Fatalf("%v become %v with %v", b.shares, next, b.Seconds())
				}
				b.Take(0)
			}
		}
	})
}

// The clock knows the newest launches of each queue it was told of, without their waits.
func TestClock(t *testing.T) {
	var c Clock
	a, b, other := &queue{}, &queue{}, &queue{}
	add := func(q device.Queue, seq uint64) { // each takes as many seconds as its number, and two more for which it waits
		at := time.Unix(10*int64(seq), 0)
		c.Add(device.Span{Device: "cpu:0", Start: at, End: at.Add(time.Duration(seq+2) * time.Second), Waited: 2 * time.Second, Event: device.Event{Queue: q, Seq: seq}})
	}
	add(a, 1) // before Begin: nobody hears
	c.Begin([]device.Queue{a, b}, 3)
	for _, seq := range []uint64{2, 4, 5, 9} {
		add(a, seq)
		add(other, seq)
	}
	add(b, 4)
	c.Add(device.Span{Device: "cpu:0"}) // of no queue
	for _, x := range []struct {
		queue device.Queue
		seq   uint64
		want  time.Duration
	}{{a, 1, 0}, {a, 2, 0}, {a, 3, 0}, {a, 4, 4}, {a, 5, 5}, {a, 6, 0}, {a, 9, 9}, {a, 10, 0}, {b, 4, 4}, {b, 5, 0}, {other, 4, 0}} {
		if took, ok := c.Took(device.Event{Queue: x.queue, Seq: x.seq}); took != x.want*time.Second || ok != (x.want > 0) {
			t.Errorf("launch %d took %v (%v), want %d s", x.seq, took, ok, x.want)
		}
	}
}

type queue struct {
	device.Queue
	_ int // so that each is another one
}

// A steady step allocates nothing.
func TestAllocatesNothing(t *testing.T) {
	var c Clock
	q := &queue{}
	c.Begin([]device.Queue{q}, 4)
	b, took, seq := New([]int{8, 8}), []float64{1, 3}, uint64(0)
	if n := testing.AllocsPerRun(100, func() {
		seq++
		c.Add(device.Span{Event: device.Event{Queue: q, Seq: seq}})
		c.Took(device.Event{Queue: q, Seq: seq})
		b.Took(took)
		b.Propose()
	}); n > 0 {
		t.Errorf("a step allocates %v times", n)
	}
}
