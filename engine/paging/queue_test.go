package paging

import (
	"math/rand"
	"slices"
	"testing"
)

// A queue gives up what Choose gives up, at every choice of a replay.
func TestQueueChoosesLikeChoose(t *testing.T) {
	choices := 0
	for seed := range int64(400) {
		tr := randomTrace(rand.New(rand.NewSource(seed)), 12, 20)
		for limit := tr.Floor(); limit <= Replay(tr, 0, NextUse).Peak; limit += Align {
			for ahead := range mostAhead + 1 {
				m := newMemory(tr, limit, Policy{Ahead: ahead})
				m.audit = func(victims []entry, ok bool, bytes int64, now, after int) {
					choices++
					want, fine := m.choose(bytes, now, after)
					if got := objectsOf(victims); ok != fine || ok && !slices.Equal(got, want) {
						t.Fatalf("seed %d, limit %d, %d ahead, launch %d: gave up %v, %v; want %v, %v", seed, limit, ahead, m.clock, got, ok, want, fine)
					}
				}
				for range 4 {
					m.step()
				}
			}
		}
	}
	if choices < 10000 {
		t.Errorf("only %d choices", choices)
	}
}

// choose is makeRoom's choice by Choose.
func (m *memory) choose(bytes int64, now, after int) ([]int, bool) {
	var all []Candidate
	for i := range m.pages {
		if p := &m.pages[i]; !p.here || p.leased == m.clock {
			continue
		}
		if c := m.candidate(i, now); c.Distance > after {
			all = append(all, c)
		}
	}
	victims, ok := Choose(all, bytes)
	var objects []int
	for _, v := range victims {
		objects = append(objects, v.Object)
	}
	slices.Sort(objects)
	return objects, ok
}

func objectsOf(victims []entry) (objects []int) {
	for _, v := range victims {
		objects = append(objects, v.Object)
	}
	slices.Sort(objects)
	return objects
}
