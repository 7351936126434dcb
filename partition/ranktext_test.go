package partition_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/berth-ml/berth/partition"
	"github.com/berth-ml/berth/partition/nets"
)

// TestRanksSendTheirShare: a rank of 64 that train a GPT sends little more than twice its share of the gradients. 256 have too
// few parts, and so do ranks with microbatches that are several parts of the tree, which is said. The bytes are those of the
// messages.
func TestRanksSendTheirShare(t *testing.T) {
	for _, c := range []struct {
		ranks, microbatches int
		note                string
	}{{64, 64, ""}, {256, 256, "there are few such parts for so many ranks"}, {3, 8, "several parts of the tree"}} {
		var of []int
		for r := range c.ranks {
			of = append(of, r)
		}
		p, err := partition.New(deepGPT(t, c.microbatches), partition.PlanOptions{
			Devices: nets.Specs(c.ranks, 1<<36), Ranks: of, Microbatches: c.microbatches, Reduction: partition.ReduceTree, Replicas: c.ranks, Shard: partition.ShardOptimizer,
		})
		if err != nil {
			t.Fatal(err)
		}
		x, err := p.Predict(nil)
		if err != nil {
			t.Fatal(err)
		}
		if note := p.SendsMore(x); (note == "") != (c.note == "") || !strings.Contains(note, c.note) {
			t.Errorf("%d ranks: %q", c.ranks, note)
		}
		if each := c.ranks <= 16; each != (len(x.Launches) > 0) || each != (len(p.Memory) > 1) {
			t.Errorf("%d ranks: %d launches, the memory of %d devices", c.ranks, len(x.Launches), len(p.Memory))
		}
		table := partition.RankTable(x, 100)
		if lines := strings.Count(table, "\n"); lines != 1+min(c.ranks, 4) || strings.Contains(table, "most") != (c.ranks > 16) {
			t.Errorf("%d ranks:\n%s", c.ranks, table)
		}
		if c.ranks > 64 {
			continue
		}
		exchange, err := p.Exchange(partition.StepOptions{Microbatches: c.microbatches}, of)
		if err != nil {
			t.Fatal(err)
		}
		for r, to := range exchange.Bytes() {
			var sent int64
			for _, n := range to {
				sent += n
			}
			if x.Ranks[r].Sent != sent {
				t.Errorf("rank %d of %d sends %d bytes, foretold are %d", r, c.ranks, sent, x.Ranks[r].Sent)
			}
		}
	}
}

// TestForecastsOfManyRanks: each of many ranks forecasts its own device as all do, unless a device is short of memory: then it is
// all that it forecasts.
func TestForecastsOfManyRanks(t *testing.T) {
	n := nets.Chain(4, 16, 2, 20)
	g, err := n.Build()
	if err != nil {
		t.Fatal(err)
	}
	var of []int
	for r := range 20 {
		of = append(of, r)
	}
	plan := func(limit int64, rank int) *partition.Plan {
		p, err := partition.New(g, partition.PlanOptions{
			Devices: nets.Specs(20, limit), Ranks: of, Rank: rank, Microbatches: 20, Reduction: partition.ReduceTree, Replicas: 20, Shard: partition.ShardOptimizer,
		})
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	all := plan(40<<10, 0).Memory
	if len(all) != 20 {
		t.Fatalf("in little memory, a rank forecasts %d devices", len(all))
	}
	for _, rank := range []int{0, 7, 19} {
		own := plan(1<<30, rank).Memory
		if len(own) != 1 || own[0].Device != rank || own[0].Peak != all[rank].Peak {
			t.Errorf("rank %d forecasts %+v, all forecast %+v", rank, own, all[rank])
		}
	}
	if peaks := fmt.Sprint(slices.MaxFunc(all, func(a, b partition.Forecast) int { return int(a.Peak - b.Peak) }).Peak); peaks == fmt.Sprint(all[0].Peak) && all[0].Peak == all[19].Peak {
		t.Error("all ranks have the same peak, and so this tests little")
	}
}
