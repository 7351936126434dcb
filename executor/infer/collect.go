package infer

import (
	"context"
	"slices"

	"github.com/berth-ml/berth/datasets"
	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/engine/metrics"
	"github.com/berth-ml/berth/engine/models"
	"github.com/berth-ml/berth/engine/shape"
	"github.com/berth-ml/berth/executor/feed"
	"github.com/berth-ml/berth/residency"
	"github.com/berth-ml/berth/residency/ledger"
)

// number is a value that an evaluation collects.
type number struct {
	name  string             // of the variable of [models.Eval]
	of    *metrics.Statistic // nil for the loss and right answers
	cells int                // of a statistic that counts; 0: it is a sum
}

// numbersOf lists the numbers that a graph of an evaluation collects.
func (e *Evaluator) numbersOf(g *graph.Graph) []number {
	list := []number{{name: models.EvalLoss}}
	correct := e.variable(0, models.EvalCorrect)
	if slices.ContainsFunc(g.Vars, func(v *graph.Value) bool { return v.Name == correct }) {
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

// variable is the name that a variable of [models.Eval] has in the program of a lane.
func (e *Evaluator) variable(lane int, of string) string {
	if !e.apart {
		return of
	}
	return models.Apart{Program: e.pass.names[lane]}.Name(of)
}

// variables calls f for the variables in which the program of a lane collects.
func (e *Evaluator) variables(lane int, f func(*residency.Tensor) error) error {
	names := make([]string, 0, len(e.numbers)+1)
	for _, n := range e.numbers {
		names = append(names, n.name)
	}
	if e.apart {
		names = append(names, models.EvalBatches)
	}
	for _, name := range names {
		t := e.pass.lanes[lane].Program.Var(e.variable(lane, name))
		if t == nil {
			continue // of other ranks
		}
		if err := f(t); err != nil {
			return err
		}
	}
	return nil
}

// begin sets what the program of a lane collects to 0.
func (e *Evaluator) begin(lane int) error {
	return e.variables(lane, func(t *residency.Tensor) error {
		return e.pass.rt.Residency.Fill(t, make([]byte, t.Meta().Bytes()))
	})
}

// end frees what the program of a lane has collected.
func (e *Evaluator) end(lane int) error { return e.variables(lane, e.pass.rt.Residency.Drop) }

// gathered is what an evaluation has collected.
type gathered struct {
	numbers []collected
	scores  *metrics.Scores // nil where it needs none
}

// collected is a number over all samples.
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

// addSums adds a batch's sums to those of the batches before, as a device does.
func (c *collected) addSums(batch []float32) {
	if c.sums == nil {
		c.sums = make([]float32, len(batch))
	}
	for i, v := range batch {
		c.sums[i] += v
	}
}

// addCounts adds the counts of some batches.
func (c *collected) addCounts(some []int32) {
	if c.counts == nil {
		c.counts = make([]int32, len(some))
	}
	for i, n := range some {
		c.counts[i] += n
	}
}

// ints views words that were pulled back as the integers that they are.
func ints(words []float32) []int32 { return shape.View[int32](shape.Bytes(words)) }

// kept is what the programs of an evaluation have collected, each of its own batches.
type kept struct {
	*Evaluator
	batches []int         // by lane: that have ended
	sums    [][][]float32 // by lane and number: those that have come out, batch after batch
	places  []batchOf     // by place
	order   []batchOf     // of the samples
}

// batchOf is a batch of a lane.
type batchOf struct{ lane, number int }

// spread goes over the samples on groups of devices. Each program keeps the sums of its batches, and its counts.
func (e *Evaluator) spread(ctx context.Context, got *gathered) error {
	if e.pass.ranks == nil { // else what has come from other ranks is the newest that there is
		for _, l := range e.pass.lanes {
			defer l.Program.Borrow()()
		}
	}
	lanes := len(e.pass.lanes)
	k := &kept{
		Evaluator: e, batches: make([]int, lanes), sums: make([][][]float32, lanes),
		places: make([]batchOf, feed.Places(lanes)), order: make([]batchOf, 0, e.pass.part.Len()/e.pass.samples()+1),
	}
	for lane := range e.pass.lanes {
		if err := e.begin(lane); err != nil {
			return err
		}
		k.sums[lane] = make([][]float32, len(e.numbers))
	}
	use := user{
		ended: func(lane, place int) error { return k.ended(ctx, lane, place) },
		use: func(place int, _ datasets.Batch, outs [][]float32) error {
			k.order = append(k.order, k.places[place])
			got.add(outs)
			return nil
		},
	}
	if err := e.pass.values(ctx, &Progress{}, ledger.Epoch, e.scores(), use); err != nil {
		return err
	}
	return k.gather(ctx, got)
}

// ended counts a batch of a lane. Sums come out where the next one would write over them.
func (k *kept) ended(ctx context.Context, lane, place int) error {
	k.places[place] = batchOf{lane, k.batches[lane]}
	k.batches[lane]++
	if k.batches[lane]%k.slots > 0 {
		return nil
	}
	return k.pullSums(ctx, lane, k.slots)
}

// pullSums pulls the sums of a lane's newest n batches back.
func (k *kept) pullSums(ctx context.Context, lane, n int) error {
	for i, x := range k.numbers {
		if x.cells > 0 {
			continue
		}
		before := len(k.sums[lane][i])
		all, err := k.pull(ctx, lane, x.name, k.sums[lane][i])
		if err != nil {
			return err
		}
		k.sums[lane][i] = all[:before+(len(all)-before)/k.slots*n]
	}
	return nil
}

// pull appends what a lane's program has in a variable to dst. With ranks, rank 0 gets it, and all call pull.
func (k *kept) pull(ctx context.Context, lane int, name string, dst []float32) ([]float32, error) {
	p, name := k.pass.lanes[lane].Program, k.variable(lane, name)
	of, rank := p.Holder(name), k.pass.rank()
	switch {
	case of == rank:
		before := len(dst)
		dst, err := k.pass.rt.AppendFloats(ctx, dst, ledger.Epoch, p.Var(name))
		if err == nil && rank > 0 {
			err = k.pass.ranks.Send(ctx, shape.Bytes(dst[before:]))
		}
		return dst, err
	case rank > 0:
		return dst, nil
	}
	i := slices.IndexFunc(p.Graph().Vars, func(v *graph.Value) bool { return v.Name == name })
	from := make([]float32, p.Graph().Vars[i].Meta.Elems())
	err := k.pass.ranks.Recv(ctx, of, shape.Bytes(from))
	return append(dst, from...), err
}

// gather pulls back what is left on the devices, and adds it up. Sums are added in the order of the samples.
func (k *kept) gather(ctx context.Context, got *gathered) error {
	got.numbers = make([]collected, len(k.numbers))
	for lane, batches := range k.batches {
		if n := batches % k.slots; n > 0 {
			if err := k.pullSums(ctx, lane, n); err != nil {
				return err
			}
		}
		for i, x := range k.numbers {
			if x.cells == 0 || batches == 0 {
				continue
			}
			words, err := k.pull(ctx, lane, x.name, nil)
			if err != nil {
				return err
			}
			if k.pass.rank() == 0 {
				got.numbers[i].addCounts(ints(words))
			}
		}
		if err := k.end(lane); err != nil {
			return err
		}
	}
	if k.pass.rank() > 0 {
		return nil
	}
	for _, b := range k.order {
		for i, all := range k.sums[b.lane] {
			if width := len(all) / k.batches[b.lane]; width > 0 { // else it is counts
				got.numbers[i].addSums(all[b.number*width:][:width])
			}
		}
	}
	return nil
}

// inPlace goes over the samples on one group of devices, whose program adds up itself.
func (e *Evaluator) inPlace(ctx context.Context, got *gathered) error {
	if err := e.begin(0); err != nil {
		return err
	}
	if err := e.each(ctx, got); err != nil {
		return err
	}
	for _, n := range e.numbers {
		words, err := e.pass.rt.Floats(ctx, ledger.Epoch, e.pass.lanes[0].Program.Var(n.name))
		if err != nil {
			return err
		}
		c := collected{sums: words}
		if n.cells > 0 {
			c = collected{counts: ints(words)}
		}
		got.numbers = append(got.numbers, c)
	}
	return e.end(0)
}

// scores names the outputs that scores are made from; none where nobody asks for scores.
func (e *Evaluator) scores() []string {
	if !e.spec.Scores {
		return nil
	}
	return []string{models.EvalScores, models.EvalCells}
}

// add adds the scores of a batch, if it has any.
func (g *gathered) add(outs [][]float32) {
	if g.scores != nil {
		g.scores.Add(outs[0], ints(outs[1]))
	}
}

// each runs every sample once, and takes each answer's scores if they are asked for.
func (e *Evaluator) each(ctx context.Context, got *gathered) error {
	if !e.spec.Scores {
		return e.pass.each(ctx, func(datasets.Batch) error { return nil })
	}
	return e.pass.values(ctx, &Progress{}, ledger.Epoch, e.scores(), user{use: func(_ int, _ datasets.Batch, outs [][]float32) error {
		got.add(outs)
		return nil
	}})
}
