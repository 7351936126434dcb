package bench

import (
	"cmp"
	"slices"
	"sync"
	"time"

	"github.com/berth-ml/berth/engine/device"
	"github.com/berth-ml/berth/engine/graph"
)

// KernelTime is the time of the kernels of one kind in a step. The rates follow
// from the costs that their ops state.
type KernelTime struct {
	Kind       string  `json:"kind"`
	Calls      float64 `json:"calls_per_step"`
	MS         float64 `json:"ms_per_step"`
	Share      float64 `json:"share"` // of the time of all kernels
	Gflops     float64 `json:"gflops"`
	GBytesPerS float64 `json:"gbytes_per_s"` // of the bytes that must be read and written
}

// kernelTimes sums up the time of every kernel.
type kernelTimes struct {
	mu   sync.Mutex
	sums map[*device.Work]*kernelSum
}

// kernelSum sums up the runs of one kernel, or of all kernels of a kind.
type kernelSum struct {
	calls int
	took  time.Duration
	cost  graph.Cost // of all calls; set by byKind
}

// add counts one run of a kernel. The goroutines of streams call it.
func (k *kernelTimes) add(x device.KernelSpan) {
	k.mu.Lock()
	defer k.mu.Unlock()
	s := k.sums[x.Work]
	if s == nil {
		if k.sums == nil {
			k.sums = map[*device.Work]*kernelSum{}
		}
		s = &kernelSum{}
		k.sums[x.Work] = s
	}
	s.calls++
	s.took += x.End.Sub(x.Start)
}

// restart forgets all times, but keeps the kernels: a known kernel allocates
// nothing in add.
func (k *kernelTimes) restart() {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, s := range k.sums {
		*s = kernelSum{}
	}
}

// byKind sums up the kernels of each name.
func (k *kernelTimes) byKind() map[string]*kernelSum {
	k.mu.Lock()
	defer k.mu.Unlock()
	kinds := map[string]*kernelSum{}
	for w, s := range k.sums {
		if s.calls == 0 {
			continue
		}
		of := kinds[w.Name]
		if of == nil {
			of = &kernelSum{}
			kinds[w.Name] = of
		}
		of.calls += s.calls
		of.took += s.took
		of.cost.Flops += w.Cost.Flops * int64(s.calls)
		of.cost.Bytes += w.Cost.Bytes * int64(s.calls)
	}
	return kinds
}

// perStep is the times of each kind in one step, given the number of steps, the
// longest first; nil if nothing was timed.
func (k *kernelTimes) perStep(steps int) []KernelTime {
	var ts []KernelTime
	var all time.Duration
	for kind, s := range k.byKind() {
		all += s.took
		n, ns := float64(steps), float64(max(1, s.took))
		ts = append(ts, KernelTime{Kind: kind, Calls: float64(s.calls) / n, MS: ns / n / 1e6, Share: ns,
			Gflops: float64(s.cost.Flops) / ns, GBytesPerS: float64(s.cost.Bytes) / ns})
	}
	for i := range ts {
		ts[i].Share /= float64(max(1, all))
	}
	slices.SortFunc(ts, func(a, b KernelTime) int { return cmp.Or(cmp.Compare(b.MS, a.MS), cmp.Compare(a.Kind, b.Kind)) })
	return ts
}
