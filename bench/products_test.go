package bench

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"testing"
	"text/tabwriter"
	"time"

	"github.com/berth-ml/berth/engine/device"
	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/engine/ops"
)

// productTimes collects the time of each run of a matrix product, with the ops
// fused to it, by shape.
type productTimes struct {
	mu     sync.Mutex
	shapes map[string]*productTime
}

type productTime struct {
	name  string
	flops int64 // of one run
	took  []time.Duration
}

// add is told of every kernel.
func (p *productTimes) add(x device.KernelSpan) {
	w := x.Work
	at := slices.IndexFunc(w.Nodes, func(n *graph.Node) bool { return n.Op.Kind() == "matmul" })
	if at < 0 {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	n := w.Nodes[at]
	op := n.Op.(ops.MatMul)
	name := fmt.Sprintf("%s %v%s %v%s", w.Name, n.In[0].Meta.Shape, mark(op.TransA), n.In[1].Meta.Shape, mark(op.TransB))
	if p.shapes[name] == nil {
		p.shapes[name] = &productTime{name: name, flops: n.Cost().Flops}
	}
	s := p.shapes[name]
	s.took = append(s.took, x.End.Sub(x.Start))
}

// mark is the mark of a transposed operand.
func mark(transposed bool) string {
	if transposed {
		return "ᵀ"
	}
	return ""
}

// table lists the shapes, those that take longest first, with the median and
// the shortest run of each, and at last all of them together.
func (p *productTimes) table(steps int) string {
	var all productTime
	var sum float64
	weight := func(s *productTime) float64 {
		slices.Sort(s.took)
		return float64(s.took[len(s.took)/2]) * float64(len(s.took)) / float64(steps) / 1e6
	}
	shapes := slices.SortedFunc(maps.Values(p.shapes), func(a, b *productTime) int { return cmp.Compare(weight(b), weight(a)) })
	var out bytes.Buffer
	t := tabwriter.NewWriter(&out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "\nPRODUCT\tRUNS\tms A STEP\tµs EACH\tGFLOP/s\tAT BEST\t")
	for _, s := range shapes {
		median, best := float64(s.took[len(s.took)/2]), float64(s.took[0])
		fmt.Fprintf(t, "%s\t%d\t%.3f\t%.0f\t%.0f\t%.0f\t\n", s.name, len(s.took)/steps, weight(s), median/1e3,
			float64(s.flops)/median, float64(s.flops)/best)
		all.flops += s.flops * int64(len(s.took)/steps)
		sum += weight(s)
	}
	fmt.Fprintf(t, "all\t\t%.3f\t\t%.0f\t\t\n", sum, float64(all.flops)/sum/1e6)
	t.Flush()
	return out.String()
}

// BenchmarkProducts times the matrix products of each workload's steps, each
// shape with the operands and in the caches as training has them.
func BenchmarkProducts(b *testing.B) {
	for _, w := range Workloads() {
		for _, threads := range []int{1, 2} {
			b.Run(fmt.Sprintf("%s/threads=%d", w.Name, threads), func(b *testing.B) { benchProducts(b, w, threads) })
		}
	}
}

func benchProducts(b *testing.B, w Workload, threads int) {
	ctx := b.Context()
	p := &productTimes{shapes: map[string]*productTime{}}
	s, err := open(ctx, w, RunOptions{Devices: "cpu", Threads: threads, onKernel: p.add})
	if err != nil {
		b.Fatal(err)
	}
	defer func() {
		if err := errors.Join(s.finish(), s.close()); err != nil {
			b.Error(err)
		}
	}()
	for range 2 { // the first step touches memory for the first time
		if err := s.step(ctx); err != nil {
			b.Fatal(err)
		}
	}
	if err := s.finish(); err != nil {
		b.Fatal(err)
	}
	clear(p.shapes)
	b.ResetTimer()
	for range b.N {
		if err := s.step(ctx); err != nil {
			b.Fatal(err)
		}
	}
	if err := s.finish(); err != nil {
		b.Fatal(err)
	}
	fmt.Print(p.table(b.N)) // a benchmark's log is cut short
}
