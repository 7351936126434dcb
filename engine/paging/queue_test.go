package paging

import (
	"math/rand"
	"slices"
	"testing"

	"github.com/berth-ml/berth/internal/testall"
)

// Take gives up what a look at all candidates gives up, at every choice of a replay.
func TestTakeLooksAtAll(t *testing.T) {
	choices := 0
	for seed := range int64(testall.Or(100, 400)) {
		tr := randomTrace(rand.New(rand.NewSource(seed)), 12, 20)
		for limit := tr.Floor(); limit <= Replay(tr, 0).Peak; limit += Align {
			for way, p := range policies(tr, limit) {
				m := newMemory(tr, limit, p)
				m.audit = func(victims []Entry, ok bool, bytes int64, now, after int) {
					choices++
					want, fine := m.choose(bytes, now, after)
					if got := objectsOf(victims); ok != fine || ok && !slices.Equal(got, want) {
						t.Fatalf("seed %d, limit %d, policy %d, launch %d: gave up %v, %v; want %v, %v", seed, limit, way, m.clock, got, ok, want, fine)
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

// policies are some of each kind: as moves happen when room is needed, as planned, and as planned with too little foresight:
// loads that need room.
func policies(tr *Trace, limit int64) []Policy {
	m := newMemory(tr, limit, Policy{})
	m.step()
	planned, hasty := Policy{Plan: m.plan(1)}, Policy{Plan: Plan{Leaves: make([][]int, len(tr.Launches)), Loads: make([][]int, len(tr.Launches))}}
	for i := range tr.Launches {
		for _, u := range tr.Launches[(i+1)%len(tr.Launches)].Uses {
			hasty.Loads[i] = append(hasty.Loads[i], u.Object)
		}
	}
	return []Policy{{}, planned, hasty}
}

// choose is makeRoom's choice by choose.
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
	victims, ok := choose(all, bytes)
	var objects []int
	for _, v := range victims {
		objects = append(objects, v.Object)
	}
	slices.Sort(objects)
	return objects, ok
}

func objectsOf(victims []Entry) (objects []int) {
	for _, v := range victims {
		objects = append(objects, v.Object)
	}
	slices.Sort(objects)
	return objects
}

// choose is Take for a list of candidates, all of which it looks at. It reorders them
// and returns the last ones, the best at the end.
func choose(c []Candidate, bytes int64) (victims []Candidate, ok bool) {
	for i := len(c)/2 - 1; i >= 0; i-- {
		sink(c, i)
	}
	n := len(c) // the candidates before n are a heap, its best first
	for ; n > 0 && bytes > 0; n-- {
		bytes -= c[0].Bytes
		c[0], c[n-1] = c[n-1], c[0]
		sink(c[:n-1], 0)
	}
	if bytes > 0 {
		return nil, false
	}
	victims = c[n:]
	kept := 0
	for i := range victims { // the worst first
		if bytes+victims[i].Bytes <= 0 {
			bytes += victims[i].Bytes
			continue
		}
		victims[kept] = victims[i]
		kept++
	}
	return victims[:kept], true
}

// sink restores the heap c where its element i may be worse than those below.
func sink(c []Candidate, i int) {
	for {
		best := i
		for k := 2*i + 1; k <= 2*i+2 && k < len(c); k++ {
			if c[k].before(&c[best]) {
				best = k
			}
		}
		if best == i {
			return
		}
		c[i], c[best] = c[best], c[i]
		i = best
	}
}
