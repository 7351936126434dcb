package paging

import (
	"math/rand"
	"slices"
	"testing"

	"github.com/berth-ml/berth/internal/testall"
)

// A plan moves what would move without it, in as much memory, and no more launches wait. It has an object leave after its last use,
// and come back no sooner than a launch later.
func TestPlanMovesTheSame(t *testing.T) {
	planned, early := 0, 0
	for seed := range int64(testall.Or(200, 1000)) {
		tr := randomTrace(rand.New(rand.NewSource(seed)), 8, 14)
		order := NewOrder(tr)
		for limit := tr.Floor(); limit < Replay(tr, 0).Peak; limit += Align {
			p, with := newPolicy(tr, limit)
			without := replay(tr, limit, Policy{Spare: p.Spare})
			if with.Peak > limit || with.Moved() > without.Moved() || with.Waits > without.Waits || with.Fed != without.Fed {
				t.Fatalf("seed %d, limit %d: with a plan %+v, without %+v", seed, limit, with, without)
			}
			if with.Floor != tr.Floor() || !with.Fits {
				t.Fatalf("seed %d, limit %d: %+v does not have the floor, which fits", seed, limit, with)
			}
			if c := CourseOf(tr, limit); len(c.Used) == 0 != (with.Moved() == 0) || len(c.Used)%len(tr.Launches) != 0 {
				t.Fatalf("seed %d, limit %d: %d bytes move, and their course has %d launches", seed, limit, with.Moved(), len(c.Used))
			}
			if p.Leaves == nil {
				continue
			}
			planned++
			n := len(tr.Launches)
			for k, list := range p.Leaves {
				for _, o := range list {
					if !order.at(o, (k+n-1)%n) || order.at(o, k%n) {
						t.Fatalf("seed %d, limit %d: object %d leaves with launch %d, which is not after its last use", seed, limit, o, k)
					}
				}
			}
			for k, list := range p.Loads {
				early += len(list)
				for _, o := range list {
					fed := tr.Objects[o].Fed && order.uses[o][0] > k%n
					if order.at(o, k%n) || !fed && slices.Contains(p.Leaves[k], o) {
						t.Fatalf("seed %d, limit %d: object %d comes back with launch %d, which uses it or has it leave", seed, limit, o, k)
					}
				}
			}
		}
	}
	if planned < 100 || early < 100 {
		t.Errorf("only %d plans, with %d early loads", planned, early)
	}
}

// Of a chain, all that leaves is back before it is read, and the room that it leaves is free before it is needed.
func TestPlanOfAChain(t *testing.T) {
	tr := chain(24, 64, 128)
	limit := Replay(tr, 0).Peak / 2
	demand := newMemory(tr, limit, Policy{Spare: limit / spareShare})
	var late, early [2]int // moves that a launch waits for: in, out
	count := func(m *memory, n *[2]int) {
		m.repeat()
		m.hears.copied = func(x Move) {
			switch {
			case !x.Ahead && x.Out:
				n[1]++
			case !x.Ahead:
				n[0]++
			}
		}
		m.step()
	}
	count(demand, &late)
	p, _ := newPolicy(tr, limit)
	count(newMemory(tr, limit, p), &early)
	if late[0] == 0 || late[1] == 0 || early != [2]int{} {
		t.Errorf("on demand, launches wait for %d loads and %d copies out; as planned for %d and %d", late[0], late[1], early[0], early[1])
	}
}

// Steps may differ for longer than a replay looks. Their plan is still kept, and counts as one that fits.
func TestPlanOfStepsThatDiffer(t *testing.T) {
	tr := &Trace{Objects: []Object{{Bytes: Align, Lasting: true}}}
	for range 19 {
		tr.Objects = append(tr.Objects, Object{Bytes: 16 * Align, Lasting: true})
	}
	for o := range tr.Objects {
		tr.Launches = append(tr.Launches, Launch{Scratch: 2 * Align, Uses: []Use{{Object: o, Read: true}}})
	}
	tr.Launches = append(tr.Launches, Launch{Uses: []Use{{Object: len(tr.Objects) - 1, Read: true, Write: true}}})
	const limit = 55 * Align
	p, r := newPolicy(tr, limit)
	m := newMemory(tr, limit, Policy{Spare: p.Spare})
	without, turns := m.repeat()
	if turns != steps || r.Moved() <= without.Moved() {
		t.Fatalf("%d steps repeat; with a plan %+v, without %+v", turns, r, without)
	}
	if p.Leaves == nil || r.Waits >= without.Waits || !r.Fits || !without.Fits {
		t.Errorf("with a plan %+v, without %+v", r, without)
	}
}

// Copies can run during the launches beside which their object has memory.
func TestDuring(t *testing.T) {
	tr := &Trace{
		Objects: []Object{{Name: "a", Bytes: 64}, {Name: "b", Bytes: 64}, {Name: "c", Bytes: 64}, {Name: "x", Bytes: 64}},
		Launches: []Launch{
			{Uses: []Use{{0, false, true}}},
			{Uses: []Use{{1, false, true}}, Scratch: 64}, // with room for a
			{Uses: []Use{{1, true, false}, {2, false, true}}, Scratch: 64},
			{Uses: []Use{{2, true, false}}, Frees: []int{2}},
			{Uses: []Use{{0, true, false}, {1, true, false}, {3, false, true}}, Frees: []int{0, 1, 3}},
		},
	}
	if err := tr.Check(); err != nil {
		t.Fatal(err)
	}
	c := Course{Used: make([]int64, 5), Moves: []Move{{Launch: 1, Object: 0, Out: true}, {Launch: 3, Object: 0}, {Launch: 3, Object: 1, Out: true}}}
	want := [][]int{{1}, {3}, {2, 3}}
	if got := c.During(tr, 192); !slices.EqualFunc(got, want, slices.Equal[[]int]) {
		t.Errorf("during %v, want %v", got, want)
	}
}
