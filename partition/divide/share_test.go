package divide_test

import (
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/engine/ops"
	"github.com/berth-ml/berth/partition/divide"
	"github.com/berth-ml/berth/partition/nets"
	"github.com/berth-ml/berth/partition/nets/passes"
	"github.com/berth-ml/berth/partition/nodes"
)

// TestReplicasShareTheUpdate divides random updates. Each range and each whole update has one of
// the replicas, and a sum that they read ends there.
func TestReplicasShareTheUpdate(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := nets.Draw(t)
		s := passes.Draw(t, n)
		s.Tree, s.Shard, s.Replicas = true, false, 1
		replicas := rapid.IntRange(2, 5).Draw(t, "replicas")
		g := passes.Build(t, n)
		idx, pl := s.Place(t, s.Index(t, g, n.Microbatches))
		shards := divide.ShardsOf(idx, pl, replicas, rapid.IntRange(1, 3).Draw(t, "unit"))
		pl.Shared = divide.Share(idx, shards)
		if cut := divide.Updates(idx, divide.Ranges{}, shards); cut != nil {
			checkDivided(t, g, cut.Graph)
			idx, pl = s.Index(t, cut.Graph, n.Microbatches), divide.Place(pl, cut)
		} else if shards.On() {
			t.Fatal("parameters are to be updated in ranges, and none is")
		}
		for _, x := range idx.Updates {
			at := pl.Replica(x)
			if at < 0 || at >= replicas {
				t.Fatalf("%v is on replica %d of %d", x, at, replicas)
			}
			updates := slices.ContainsFunc(x.Out, func(v *graph.Value) bool { h := idx.Variable[v.ID]; return h != nil && h.Role == graph.Parameter })
			for _, v := range x.In {
				_, ranged := x.Op.(ops.Ranged)
				if v.Kind == graph.Summed && !nodes.Scalar(v) && (updates || ranged) && pl.Shared.Sum[v.ID] != at {
					t.Fatalf("%v is on replica %d, and reads %s of replica %d", x, at, v.Name, pl.Shared.Sum[v.ID])
				}
			}
		}
	})
}

// TestSharesAreEven: the replica that changes the most bytes changes at most as many as the one
// with the fewest and the largest update that is not cut. 40 replicas have more than a parameter has units.
func TestSharesAreEven(t *testing.T) {
	for _, replicas := range []int{2, 3, 4, 7, 40} {
		n := nets.Chain(6, 8, 2, 8)
		if replicas > 8 {
			n = nets.Chain(12, 16, 2, replicas)
		}
		n.Adam = true
		s := passes.Setup{Tree: true, Shard: true, Unit: 4, Replicas: replicas}
		idx, pl := s.Place(t, s.Index(t, passes.Build(t, n), 8))
		loads, largest := make([]int64, replicas), int64(0)
		for _, x := range idx.Updates {
			var bytes int64
			for _, v := range x.Out {
				if h := idx.Variable[v.ID]; h != nil && h.Role == graph.OptState {
					bytes += v.Meta.Bytes()
				}
			}
			loads[pl.Replica(x)] += bytes
			if _, ranged := x.Op.(ops.Ranged); !ranged {
				largest = max(largest, bytes)
			}
		}
		if most, least := slices.Max(loads), slices.Min(loads); least == 0 || most > least+largest+2*4*4*2 {
			t.Errorf("%d replicas have %v bytes of state; the largest update is %d", replicas, loads, largest)
		}
	}
}
