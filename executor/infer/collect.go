package infer

import (
	"context"
	"fmt"
	"slices"

	"github.com/berth-ml/berth/datasets"
	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/engine/metrics"
	"github.com/berth-ml/berth/engine/models"
	"github.com/berth-ml/berth/engine/shape"
	"github.com/berth-ml/berth/residency/ledger"
)

// number is a value that an evaluation collects.
type number struct {
	name  string             // of the graph's variable, or of its output for each batch
	of    *metrics.Statistic // nil for the loss and right answers
	cells int                // of a statistic that counts; 0: it is a sum
}

// numbersOf lists the numbers that a graph of an evaluation collects.
func (e *Evaluator) numbersOf(g *graph.Graph) []number {
	list := []number{{name: models.EvalLoss}}
	if has := func(v *graph.Value) bool { return v.Name == models.EvalCorrect }; slices.ContainsFunc(g.Vars, has) || slices.ContainsFunc(g.Outputs, has) {
		list = append(list, number{name: models.EvalCorrect})
	}
	for _, s := range e.spec.Statistics {
		n := number{name: models.EvalName(s), of: s}
		if s.Cells != nil {
			n.cells = s.Cells(e.task)
		}
		list = append(list, n)
	}
	return list
}

// collected is a number that was collected so far.
type collected struct {
	sums   []float32
	counts []int32
}

// values are the sums or counts.
func (c *collected) values() []float64 {
	all := make([]float64, 0, len(c.sums)+len(c.counts))
	for _, v := range c.sums {
		all = append(all, float64(v))
	}
	for _, v := range c.counts {
		all = append(all, float64(v))
	}
	return all
}

// add adds a batch's numbers to those of the batches before, as a device does. With
// padded, cells of padding are left out.
func (n number) add(c *collected, batch []float32, padded bool) error {
	if n.cells == 0 {
		if c.sums == nil {
			c.sums = make([]float32, len(batch))
		}
		for i, v := range batch {
			c.sums[i] += v
		}
		return nil
	}
	if c.counts == nil {
		c.counts = make([]int32, n.cells)
	}
	for _, k := range ints(batch) {
		if k == datasets.Padding && padded {
			continue
		}
		if k < 0 || int(k) >= n.cells {
			return fmt.Errorf("BUG: %s: cell %d is outside its %d cells", n.name, k, n.cells)
		}
		c.counts[k]++
	}
	return nil
}

// ints views words that were pulled back as the integers that they are.
func ints(words []float32) []int32 { return shape.View[int32](shape.Bytes(words)) }

// spread goes over the samples on groups of devices: each batch's numbers come out.
func (e *Evaluator) spread(ctx context.Context, done *Progress) error {
	if e.pass.ranks == nil { // else what has come from other ranks is the newest that there is
		for _, l := range e.pass.lanes {
			defer l.Program.Borrow()()
		}
	}
	names := []string{}
	for _, n := range e.numbers {
		names = append(names, n.name)
	}
	if e.spec.Scores {
		names = append(names, models.EvalScores, models.EvalCells)
	}
	if done.collected == nil {
		done.collected = make([]collected, len(e.numbers))
	}
	return e.pass.values(ctx, done, ledger.Epoch, names, func(_ datasets.Batch, outs [][]float32) error {
		for i, n := range e.numbers {
			if err := n.add(&done.collected[i], outs[i], e.spec.Lengths); err != nil {
				return err
			}
		}
		if k := len(e.numbers); e.spec.Scores {
			done.scores.Add(outs[k], ints(outs[k+1]))
		}
		return nil
	})
}

// inPlace goes over the samples on one group of devices: sums and counts come out at the
// end.
func (e *Evaluator) inPlace(ctx context.Context, done *Progress) error {
	prog, rt := e.pass.lanes[0].Program, e.pass.rt
	for _, n := range e.numbers {
		t := prog.Var(n.name)
		if err := rt.Residency.Fill(t, make([]byte, t.Meta().Bytes())); err != nil {
			return err
		}
	}
	if err := e.each(ctx, done); err != nil {
		return err
	}
	for _, n := range e.numbers {
		t := prog.Var(n.name)
		words, err := rt.Floats(ctx, ledger.Epoch, t)
		if err != nil {
			return err
		}
		c := collected{sums: words}
		if n.cells > 0 {
			c = collected{counts: ints(words)}
		}
		done.collected = append(done.collected, c)
	}
	for _, n := range e.numbers {
		if err := rt.Residency.Drop(prog.Var(n.name)); err != nil {
			return err
		}
	}
	return nil
}

// each runs every sample once, and takes each answer's scores if they are asked for.
func (e *Evaluator) each(ctx context.Context, done *Progress) error {
	if !e.spec.Scores {
		return e.pass.each(ctx, func(datasets.Batch) error { return nil })
	}
	names := []string{models.EvalScores, models.EvalCells}
	return e.pass.values(ctx, done, ledger.Epoch, names, func(_ datasets.Batch, outs [][]float32) error {
		done.scores.Add(outs[0], ints(outs[1]))
		return nil
	})
}
