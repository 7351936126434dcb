package partition

import (
	"fmt"
	"math"
	"slices"
	"sort"

	"github.com/berth-ml/berth/engine/device"
	"github.com/berth-ml/berth/internal/stop"
)

// search is the dynamic program over (blocks placed, stages used).
type search struct {
	o       PlanOptions
	groups  *grouped // by block
	stages  int
	device  []int
	flight  []int // by stage: PlanOptions.inFlight
	allowed []bool
	flops   []int64              // before each block
	foot    map[[2]int]footprint // by first block and block after the last; made when first needed
	stop    *stop.Check          // the search finds nothing once it is done
}

// label is one way to put the first blocks on the first stages. Ways are
// compared in three numbers, so each state keeps every way that no other
// beats in all of them.
type label struct {
	time  float64 // seconds of the slowest stage
	cross int64   // bytes that cross cuts
	mem   int64   // bytes on the last device, if the next stage shares it
	from  int     // first block of the last stage
	prev  *label
}

// best is the fastest way that fits, or the fastest of all if none fits.
// Measuring the memory of a stage costs much more than its time. So best looks
// for ways within a bound on the slowest stage: first the least possible one,
// then wider ones. A way that fits within a bound is at least as fast as all ways
// beyond it.
func (s *search) best() *label {
	least := s.leastTime()
	for _, slack := range []float64{1, 1.05, 1.2, 1.5, 2, 4, math.Inf(1)} {
		if w := s.within(true, least*slack); w != nil {
			return w
		}
	}
	return s.within(false, least)
}

// leastTime is the time of the slowest stage in the fastest way, whatever memory
// it needs.
func (s *search) leastTime() float64 {
	blocks := len(s.flops) - 1
	least := make([]float64, blocks+1) // of the first blocks, on the stages so far
	for i := range least[1:] {
		least[i+1] = math.Inf(1)
	}
	for stage := range s.stages {
		least = s.addStage(least, stage)
	}
	return least[blocks]
}

// addStage is the least time of the first blocks, given that without this stage.
// The stage may begin at any block lo: a later one leaves less to do here, and
// may leave more to the stages before. A begin is of use only if no later one
// leaves as little to them. begins has those, first to last; the best is where
// the stages before become slower than this one, or just before that.
func (s *search) addStage(least []float64, stage int) []float64 {
	next := slices.Repeat([]float64{math.Inf(1)}, len(least))
	var begins []int
	_, to := s.ends(stage)
	for hi := stage + 1; hi <= to && !s.stop.Done(); hi++ {
		for len(begins) > 0 && least[begins[len(begins)-1]] >= least[hi-1] {
			begins = begins[:len(begins)-1]
		}
		begins = append(begins, hi-1)
		if !s.allowed[hi] {
			continue
		}
		i := sort.Search(len(begins)-1, func(i int) bool { return least[begins[i]] >= s.time(stage, begins[i], hi) })
		for _, lo := range begins[max(0, i-1) : i+1] {
			next[hi] = min(next[hi], max(least[lo], s.time(stage, lo, hi)))
		}
	}
	return next
}

// time is the seconds that a stage of blocks lo to hi-1 takes.
func (s *search) time(stage, lo, hi int) float64 {
	return seconds(s.flops[hi]-s.flops[lo], s.o.Devices[s.device[stage]])
}

// ends are the blocks after a stage: it has at least one block, and so has each
// stage before and after it.
func (s *search) ends(stage int) (from, to int) {
	from, to = stage+1, len(s.flops)-s.stages+stage
	if stage == s.stages-1 {
		from = to
	}
	return from, to
}

// roomAfter is the flops that the stages after this one can take within the bound.
func (s *search) roomAfter(stage int, bound float64) (room float64) {
	for i := stage + 1; i < s.stages; i++ {
		room += bound * max(s.o.Devices[s.device[i]].FlopsPerSecond, 1)
	}
	return room * (1 + 1e-9)
}

// within is the best way to place all blocks with no stage slower than the
// bound, nil if there is none.
func (s *search) within(fit bool, bound float64) *label {
	blocks := len(s.flops) - 1
	ways := make([][]*label, blocks+1)
	ways[0] = []*label{{}}
	for stage := range s.stages {
		next, room := make([][]*label, blocks+1), s.roomAfter(stage, bound)
		from, to := s.ends(stage)
		for hi, lo := from, stage; hi <= to; hi++ {
			if s.stop.Err() != nil || !s.allowed[hi] || float64(s.flops[blocks]-s.flops[hi]) > room {
				continue
			}
			for lo < hi && (len(ways[lo]) == 0 || s.time(stage, lo, hi) > bound) {
				lo++ // nor will it do for a later hi
			}
			for lo := lo; lo < hi; lo++ {
				next[hi] = s.extendAll(next[hi], ways[lo], stage, lo, hi, fit)
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

func (s *search) extendAll(to, ways []*label, stage, lo, hi int, fit bool) []*label {
	for _, w := range ways {
		if l := s.extend(w, stage, lo, hi, fit); l != nil {
			to = keep(to, l)
		}
	}
	return to
}

// footprint measures blocks lo to hi-1 once.
func (s *search) footprint(lo, hi int) footprint {
	k := [2]int{lo, hi}
	f, ok := s.foot[k]
	if ok {
		return f
	}
	if s.stop.Err() != nil {
		return f
	}
	f, err := s.groups.measure(lo, hi, nil)
	if err == nil {
		s.foot[k] = f
	}
	return f
}

// extend adds a stage of blocks lo to hi-1, nil if it does not fit.
func (s *search) extend(w *label, stage, lo, hi int, fit bool) *label {
	f := s.footprint(lo, hi)
	spec := s.o.Devices[s.device[stage]]
	mem := total(f.memory(s.flight[stage]))
	if stage > 0 && s.device[stage] == s.device[stage-1] {
		mem += w.mem
	}
	if fit && spec.MemoryBytes > 0 && mem > spec.MemoryBytes {
		return nil
	}
	l := &label{time: max(w.time, s.time(stage, lo, hi)), cross: w.cross + f.bytesIn, from: lo, prev: w}
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

// result turns a way into a cut.
func (s *search) result(blocks []string, best *label, fewer *Fewer) cut {
	if best == nil {
		panic("BUG: there is no way to cut the blocks")
	}
	c := cut{blocks: blocks, stageOf: make([]int, len(blocks)), device: s.device, cause: make([]string, s.stages), fewer: fewer}
	why := ""
	if fewer != nil {
		why = "; " + fewer.String()
	}
	all := s.flops[len(blocks)]
	hi := len(blocks)
	for stage, w := s.stages-1, best; stage >= 0; stage, w = stage-1, w.prev {
		for i := w.from; i < hi; i++ {
			c.stageOf[i] = stage
		}
		flops := s.flops[hi] - s.flops[w.from]
		c.cause[stage] = fmt.Sprintf("automatic: %.0f%% of the flops%s%s", 100*float64(flops)/max(1, float64(all)), sharing(s.device, stage, s.o.Devices), why)
		hi = w.from
	}
	return c
}
