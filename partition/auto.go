package partition

import (
	"fmt"

	"github.com/berth-ml/berth/engine/device"
	"github.com/berth-ml/berth/engine/graph"
)

// cutAutomatically finds the contiguous cut with the least time of the slowest
// stage that fits the devices, and of those the one where the fewest bytes
// cross. Where nothing fits it balances time alone, and the memory check says
// what is missing.
func cutAutomatically(idx *index, blocks []string, o Options) cut {
	if len(blocks) == 0 {
		return cut{device: []int{0}, cause: []string{"automatic: the graph has no layers to cut at"}}
	}
	pl := place(idx, len(blocks), identity(blocks))
	allowed := allowedCuts(idx, pl)
	want, why := stageCount(blocks, allowed, o)
	s := &search{o: o, stages: want, device: dealDevices(want, len(o.Devices)), allowed: allowed}
	s.measureAll(idx, pl)
	best := s.run(true)
	if best == nil {
		best = s.run(false)
	}
	return s.result(blocks, best, why)
}

// identity makes each block its own group.
func identity(blocks []string) map[string]int {
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

// stageCount is how many stages there can be, and why fewer than asked.
func stageCount(blocks []string, allowed []bool, o Options) (n int, why string) {
	n = o.Count
	if n == 0 {
		n = len(o.Devices)
	}
	most := 1
	for _, ok := range allowed[1:len(blocks)] {
		if ok {
			most++
		}
	}
	if n <= most {
		return n, ""
	}
	noun := "devices"
	if o.Count != 0 {
		noun = "stages asked for"
	}
	if most < len(blocks) {
		return most, fmt.Sprintf("; %d %s but the blocks can be cut in %d places only", n, noun, most-1)
	}
	return most, fmt.Sprintf("; %d %s but only %d blocks", n, noun, most)
}

// search is the dynamic program over (blocks placed, stages used).
type search struct {
	o       Options
	stages  int
	device  []int
	allowed []bool
	foot    [][]footprint // [first block][block after the last]
}

// label is one way to place the first blocks on the first stages. Ways are
// compared in three numbers, so each state keeps every way that no other
// beats in all of them.
type label struct {
	time  float64 // seconds of the slowest stage
	cross int64   // bytes that cross cuts
	mem   int64   // bytes on the last device, if the next stage shares it
	from  int     // first block of the last stage
	prev  *label
}

func (s *search) measureAll(idx *index, pl *placement) {
	s.foot = make([][]footprint, pl.groups)
	for lo := range s.foot {
		s.foot[lo] = make([]footprint, pl.groups+1)
		for hi := lo + 1; hi <= pl.groups; hi++ {
			if s.allowed[lo] && s.allowed[hi] {
				s.foot[lo][hi] = measure(idx, pl, lo, hi, nil)
			}
		}
	}
}

// run returns the best way to place all blocks, nil if none fits.
func (s *search) run(fit bool) *label {
	blocks := len(s.foot)
	ways := make([][]*label, blocks+1)
	ways[0] = []*label{{}}
	for stage := range s.stages {
		next := make([][]*label, blocks+1)
		for hi := stage + 1; hi <= blocks; hi++ {
			for lo := stage; s.allowed[hi] && lo < hi; lo++ {
				for _, w := range ways[lo] {
					if l := s.extend(w, stage, lo, hi, fit); l != nil {
						next[hi] = keep(next[hi], l)
					}
				}
			}
		}
		ways = next
	}
	var best *label
	for _, w := range ways[blocks] {
		if best == nil || w.time < best.time || w.time == best.time && w.cross < best.cross {
			best = w
		}
	}
	return best
}

// extend adds a stage of blocks lo to hi-1, nil if it does not fit.
func (s *search) extend(w *label, stage, lo, hi int, fit bool) *label {
	f := s.foot[lo][hi]
	spec := s.o.Devices[s.device[stage]]
	mem := total(f.memory(s.o.InFlight(s.stages, stage)))
	if stage > 0 && s.device[stage] == s.device[stage-1] {
		mem += w.mem
	}
	if fit && spec.MemoryBytes > 0 && mem > spec.MemoryBytes {
		return nil
	}
	l := &label{time: max(w.time, seconds(f.flops, spec)), cross: w.cross + f.bytesIn, from: lo, prev: w}
	if stage+1 < s.stages && s.device[stage+1] == s.device[stage] {
		l.mem = mem
	}
	return l
}

// seconds is the rough time of flops on a device.
func seconds(flops int64, spec device.Spec) float64 {
	if spec.FlopsPerSecond <= 0 {
		return float64(flops)
	}
	return float64(flops) / spec.FlopsPerSecond
}

// keep adds a label unless another is as good in everything, and drops those
// that it is as good as in everything.
func keep(ways []*label, l *label) []*label {
	for _, w := range ways {
		if w.beats(l) {
			return ways
		}
	}
	kept := ways[:0]
	for _, w := range ways {
		if !l.beats(w) {
			kept = append(kept, w)
		}
	}
	return append(kept, l)
}

func (l *label) beats(o *label) bool {
	return l.time <= o.time && l.cross <= o.cross && l.mem <= o.mem
}

// result spells a way out as a cut.
func (s *search) result(blocks []string, best *label, why string) cut {
	if best == nil {
		panic("BUG: there is no way to cut the blocks")
	}
	c := cut{blocks: blocks, stageOf: make([]int, len(blocks)), device: s.device, cause: make([]string, s.stages)}
	all := s.foot[0][len(blocks)].flops
	hi := len(blocks)
	for stage, w := s.stages-1, best; stage >= 0; stage, w = stage-1, w.prev {
		for i := w.from; i < hi; i++ {
			c.stageOf[i] = stage
		}
		f := s.foot[w.from][hi]
		c.cause[stage] = fmt.Sprintf("automatic: %.0f%% of the flops%s%s", 100*float64(f.flops)/max(1, float64(all)), sharing(s.device, stage, s.o.Devices), why)
		hi = w.from
	}
	return c
}
