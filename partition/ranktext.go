package partition

import (
	"fmt"
	"slices"

	"github.com/berth-ml/berth/engine/ops"
	"github.com/berth-ml/berth/internal/units"
	"github.com/berth-ml/berth/partition/simulate"
)

// RankTable lists what each rank sends and receives in a predicted step, and for how long it works and waits; of many ranks the
// first, and the least, mean and most of all. A line has at most width characters (0: 100).
func RankTable(x *Prediction, width int) string {
	rows := [][]string{{"rank", "sends", "messages", "receives", "works", "waits"}}
	add := func(name string, r simulate.Rank) {
		rows = append(rows, []string{
			name, units.Bytes(r.Sent), units.Thousands(r.Messages), units.Bytes(r.Received), units.Seconds(r.Working), units.Seconds(r.Waiting),
		})
	}
	for i, r := range x.Ranks {
		if len(x.Ranks) <= simulate.FewRanks || i == 0 {
			add(fmt.Sprint(i), r)
		}
	}
	if len(x.Ranks) > simulate.FewRanks {
		least, mean, most := spread(x.Ranks)
		add("least", least)
		add("mean", mean)
		add("most", most)
	}
	return align(rows, width, map[int]bool{0: true}, 2)
}

// spread is the least, the mean and the most of each number.
func spread(ranks []simulate.Rank) (least, mean, most simulate.Rank) {
	least, most = ranks[0], ranks[0]
	for _, r := range ranks {
		least.Sent, most.Sent = min(least.Sent, r.Sent), max(most.Sent, r.Sent)
		least.Received, most.Received = min(least.Received, r.Received), max(most.Received, r.Received)
		least.Messages, most.Messages = min(least.Messages, r.Messages), max(most.Messages, r.Messages)
		least.Working, most.Working = min(least.Working, r.Working), max(most.Working, r.Working)
		least.Waiting, most.Waiting = min(least.Waiting, r.Waiting), max(most.Waiting, r.Waiting)
		mean.Sent, mean.Received, mean.Messages = mean.Sent+r.Sent, mean.Received+r.Received, mean.Messages+r.Messages
		mean.Working, mean.Waiting = mean.Working+r.Working, mean.Waiting+r.Waiting
	}
	n := len(ranks)
	mean.Sent, mean.Received, mean.Messages = mean.Sent/int64(n), mean.Received/int64(n), mean.Messages/n
	mean.Working, mean.Waiting = mean.Working/float64(n), mean.Waiting/float64(n)
	return least, mean, most
}

// GradientBytes is the size of all gradients.
func (p *Plan) GradientBytes() (bytes int64) {
	for _, a := range p.Graph.Accums {
		bytes += a.Sum.Meta.Bytes()
	}
	return bytes
}

// SendsMore says why a rank sends more than about twice its share of the gradients in a predicted step; "" if none does, or
// replicas do not share the update.
func (p *Plan) SendsMore(x *Prediction) string {
	ranks, all := int64(len(x.Ranks)), p.GradientBytes()
	if ranks < 2 || p.Replicas() < 2 || len(p.Stages) > 1 || p.options.Shard != ShardOptimizer {
		return ""
	}
	share := all * 21 * (ranks - 1) / (10 * ranks)
	most := slices.MaxFunc(x.Ranks, func(a, b simulate.Rank) int { return int(a.Sent - b.Sent) }).Sent
	if most <= share+1024 {
		return ""
	}
	sends, about := units.TwoBytes(most, share)
	why := fmt.Sprintf("parameters are divided at multiples of %s elements, and there are few such parts for so many ranks", units.Thousands(ops.SumElems))
	if each := p.Microbatches / p.Replicas(); each*p.Replicas() != p.Microbatches || each&(each-1) != 0 {
		why = fmt.Sprintf("the microbatches of a rank are several parts of the tree that sums all %s: give each rank as many as another, and 1, 2, 4 or 8", units.Thousands(p.Microbatches))
	}
	return fmt.Sprintf("a rank sends up to %s in a step, where 2.1 times its share of the gradients is %s: %s", sends, about, why)
}
