package step_test

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/berth-ml/berth/executor/schedule"
	"github.com/berth-ml/berth/partition/nets"
	"github.com/berth-ml/berth/partition/nets/passes"
	"github.com/berth-ml/berth/partition/segment"
	"github.com/berth-ml/berth/partition/step"
)

// TestLaunchesOfSums lists the launches that add partial sums, and where they stand.
func TestLaunchesOfSums(t *testing.T) {
	for microbatches, want := range map[int]string{
		1: "FBU0",
		2: "F0 B0 F1 B1 U0",
		3: "F0 B0 F1 B1 F2 FR0-3 B2 BR0-3 U0",
		4: "F0 B0 F1 B1 F2 B2 F3 FR0-4 B3 BR0-4 U0",
		7: "F0 B0 F1 B1 F2 B2 F3 FR0-4 B3 BR0-4 F4 B4 F5 B5 F6 FR4-7 FR0-7 B6 BR4-7 BR0-7 U0",
	} {
		launches := passes.Launches(t, passes.Setup{Tree: true}.Program(t, nets.Chain(1, 4, 2, microbatches)), step.Options{Microbatches: microbatches})
		for _, l := range launches {
			if l.Reduces() != strings.Contains(l.Name(), "R") {
				t.Errorf("%s reduces: %v", l.Name(), l.Reduces())
			}
		}
		if got := strings.ReplaceAll(namesOf(launches), "s0.", ""); got != want {
			t.Errorf("%d microbatches: %s, want %s", microbatches, got, want)
		}
	}
}

// TestTreeIsOfMicrobatchesAlone lists the sums that steps of every length write in their backward
// passes. For any number of replicas they are nodes of one tree: the sums of two or more
// microbatches that one replica writes are those that it takes to reach the whole.
func TestTreeIsOfMicrobatchesAlone(t *testing.T) {
	type sum struct{ lo, hi int }
	for microbatches := 1; microbatches <= 17; microbatches++ {
		var want map[sum]bool
		for replicas := 1; replicas <= min(4, microbatches); replicas++ {
			p := passes.Setup{Tree: true, Apart: true, Replicas: replicas}.Program(t, nets.Chain(1, 2, 1, microbatches))
			got := map[sum]bool{}
			for _, l := range passes.Launches(t, p, step.Options{Microbatches: microbatches}) {
				if l.Segment.Pass == schedule.Backward && l.Hi-l.Lo > 1 {
					got[sum{l.Lo, l.Hi}] = true
				}
			}
			if len(got) != microbatches-1 || microbatches > 1 && !got[sum{0, microbatches}] {
				t.Errorf("%d microbatches, %d replicas: the sums %v", microbatches, replicas, got)
			}
			if want == nil {
				want = got
			}
			if !maps.Equal(got, want) {
				t.Errorf("%d microbatches: %d replicas add %v, one adds %v", microbatches, replicas, got, want)
			}
		}
	}
}

// TestReplicasAddLast checks that no replica waits for another one's sums before it is
// done with its own backward passes.
func TestReplicasAddLast(t *testing.T) {
	for _, shard := range []bool{false, true} {
		p := passes.Setup{Replicas: 4, Shard: shard, Tree: true, Grain: segment.ByBlock}.Program(t, nets.Chain(3, 4, 2, 8))
		added := map[int]bool{} // by device
		for _, l := range passes.Launches(t, p, step.Options{Microbatches: 8}) {
			switch {
			case l.Reduces() && l.Hi-l.Lo > 2:
				added[l.Device] = true
			case l.Segment.Pass == schedule.Backward && added[l.Device] && !l.Reduces():
				t.Errorf("%s, sharing %v, comes after sums of other replicas", l.Name(), shard)
			}
		}
		if len(added) == 0 {
			t.Error("no replica adds sums of others")
		}
	}
}

// TestReplicasTakeTurns gives replicas microbatches in any order: each adds sums alone
// only if all of their microbatches are its own.
func TestReplicasTakeTurns(t *testing.T) {
	const text = "schedule turns stages 1 microbatches 4 replicas 2\n0: 0F0 0B0 0F3 0B3 0U\n1: 0F1@1 0B1@1 0F2@1 0B2@1 0U@1\n"
	order, err := schedule.Read(text)
	if err != nil {
		t.Fatal(err)
	}
	p := passes.Setup{Order: &order, Replicas: 2, Shard: true, Tree: true, Unit: 1, Grain: segment.ByBlock}.Program(t, nets.Chain(3, 4, 2, 4))
	replica, shared := [...]int{0, 1, 1, 0}, 0
	for _, l := range passes.Launches(t, p, step.Options{Microbatches: 4}) {
		if l.Reduces() && slices.ContainsFunc(l.Segment.ReduceOn, func(v segment.Variant) bool { return v.Graph == l.Variant.Graph }) {
			shared++
		}
		for m := l.Lo; m < l.Hi && l.Reduces() && l.Variant == &l.Segment.Reduce; m++ {
			if replica[m] != l.Replica {
				t.Errorf("%s adds microbatch %d of replica %d on replica %d", l.Name(), m, replica[m], l.Replica)
			}
		}
	}
	if shared == 0 {
		t.Error("no sums of two replicas are added")
	}
}
