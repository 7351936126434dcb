package divide

import (
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// TestReplicasRanges: the ranges of replicas follow each other, begin at multiples of the unit,
// have every element once, and no more than was asked for. Shares differ by a unit.
func TestReplicasRanges(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := Shards{replicas: rapid.IntRange(1, 9).Draw(t, "replicas"), unit: rapid.IntRange(1, 7).Draw(t, "unit")}
		elems, most := rapid.IntRange(1, 200).Draw(t, "elements"), rapid.IntRange(0, 50).Draw(t, "most")
		end, shares := 0, make([]int, s.replicas)
		replica := 0
		for _, r := range s.ranges("", elems, most) {
			if r.from != end || r.count <= 0 || most > 0 && r.count > most || r.replica < replica {
				t.Fatalf("%+v, at most %d elements", s.ranges("", elems, most), most)
			}
			if r.replica > replica && r.from%s.unit != 0 {
				t.Fatalf("replica %d begins at %d, unit %d", r.replica, r.from, s.unit)
			}
			end, replica = end+r.count, r.replica
			shares[r.replica] += r.count
		}
		if end != elems {
			t.Fatalf("%d of %d elements are in a range", end, elems)
		}
		if least, largest := slices.Min(shares), slices.Max(shares); largest-least > 2*s.unit {
			t.Fatalf("shares of %d elements by %d: %v", elems, s.unit, shares)
		}
	})
}

// TestSmallParametersAreSharedByAll: of as many parameters as there are replicas, each of fewer units, every replica has
// as much.
func TestSmallParametersAreSharedByAll(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := Shards{replicas: rapid.IntRange(2, 40).Draw(t, "replicas"), unit: rapid.IntRange(1, 5).Draw(t, "unit"), home: map[string]int{}}
		elems := s.unit * rapid.IntRange(1, s.replicas-1).Draw(t, "units")
		shares := make([]int, s.replicas)
		for i := range s.replicas {
			name := fmt.Sprint(i)
			s.home[name] = i
			for _, r := range s.ranges(name, elems, 0) {
				shares[r.replica] += r.count
			}
		}
		if slices.Min(shares) != elems || slices.Max(shares) != elems {
			t.Fatalf("%d parameters of %d elements: shares %v", s.replicas, elems, shares)
		}
	})
}
