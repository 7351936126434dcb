package partition

import (
	"github.com/berth-ml/berth/engine/graph"
)

// cutAutomatically finds the contiguous cut that fits the devices and whose
// slowest stage is fastest; among equals, the one where the fewest bytes cross.
// If no cut fits, it balances time alone, and checkMemory reports the missing
// bytes.
func cutAutomatically(idx *index, blocks []string, o PlanOptions, stop func() error) (cut, error) {
	if len(blocks) == 0 {
		return cut{device: []int{0}, cause: []string{"automatic: the graph has no layers to cut at"}}, nil
	}
	if err := stop(); err != nil {
		return cut{}, err
	}
	pl := place(idx, len(blocks), oneGroupEach(blocks))
	allowed := allowedCuts(idx, pl)
	want, fewer := stageCount(blocks, allowed, o)
	s := &search{
		o: o, idx: idx, pl: pl, stages: want, device: dealDevices(want, len(o.Devices)), allowed: allowed,
		flops: flopsBefore(idx, pl), foot: map[[2]int]footprint{}, stop: stop,
	}
	best := s.best()
	if s.stopped != nil {
		return cut{}, s.stopped
	}
	return s.result(blocks, best, fewer), nil
}

// flopsBefore[i] is the arithmetic of all blocks before block i.
func flopsBefore(idx *index, pl *placement) []int64 {
	sum := make([]int64, pl.groups+1)
	for _, n := range idx.g.Nodes {
		if n.Phase != graph.Update {
			sum[pl.node[n.ID]+1] += n.Cost().Flops
		}
	}
	for i := range pl.groups {
		sum[i+1] += sum[i]
	}
	return sum
}

// oneGroupEach makes each block its own group.
func oneGroupEach(blocks []string) map[string]int {
	m := map[string]int{}
	for i, b := range blocks {
		m[b] = i
	}
	return m
}

// allowedCuts tells for each i whether a stage may begin with block i: not
// where a forward value would go back to an earlier block.
func allowedCuts(idx *index, pl *placement) []bool {
	allowed := make([]bool, pl.groups+1)
	for i := range allowed {
		allowed[i] = true
	}
	for _, n := range idx.g.Nodes {
		for _, v := range n.In {
			if n.Phase != graph.Forward || v.Kind != graph.Computed {
				continue
			}
			for i := pl.node[n.ID] + 1; i <= pl.node[v.Node.ID]; i++ {
				allowed[i] = false
			}
		}
	}
	return allowed
}

// stageCount is the number of stages. The second result is nil if it is the number
// asked for.
func stageCount(blocks []string, allowed []bool, o PlanOptions) (int, *Fewer) {
	f := &Fewer{Asked: o.Count, Stages: 1, Blocks: len(blocks)}
	if f.Devices = o.Count == 0; f.Devices {
		f.Asked = len(o.Devices)
	}
	for _, ok := range allowed[1:len(blocks)] {
		if ok {
			f.Stages++
		}
	}
	if f.Asked <= f.Stages {
		return f.Asked, nil
	}
	return f.Stages, f
}

// chooseCut is pass 3: by hand as asked, or automatic.
func chooseCut(idx *index, blocks []string, o PlanOptions, stop func() error) (cut, error) {
	if o.Stages != nil {
		return cutByHand(blocks, o)
	}
	return cutAutomatically(idx, blocks, o, stop)
}
