package models

import (
	"strings"

	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/engine/metrics"
	"github.com/berth-ml/berth/engine/ops"
	"github.com/berth-ml/berth/engine/shape"
	"github.com/berth-ml/berth/internal/panics"
)

// Eval builds the graph that adds a batch's loss and right answers to the variables
// [EvalLoss] and [EvalCorrect], and its statistics to those of [EvalName]. With
// Spec.Scores, [EvalScores] and [EvalCells] are its outputs. Of z it uses Microbatch and
// Stop.
func Eval(s Spec, z Size) (*graph.Graph, error) {
	return evaluation(s, z, func(c *context, name string, x *graph.Value, cells int) {
		add := graph.Op(ops.AddOp)
		m := x.Meta
		if cells > 0 {
			add, m = ops.Tally{Padded: c.lengths != nil}, shape.I32(cells)
		}
		v := c.b.Var(name, m, graph.Metric, graph.Init{})
		c.b.Assign(v, c.b.One(add, v, x))
	}, func(*context) {})
}

// Apart is a program among several that evaluate the batches of a part, each in whatever order it gets them.
type Apart struct {
	Program string // its name, which its variables have in place of "eval"
	Slots   int    // batches whose sums it keeps
}

// Name is the name of the program's variable in place of one of Eval's.
func (a Apart) Name(of string) string { return a.Program + strings.TrimPrefix(of, "eval") }

// EvalApart builds the graph of such a program. Its variables are its own, by [Apart.Name]. Sums of floats depend on
// their order, so those of its batch i stay apart, at i modulo the slots. Cells are counted, as Eval does.
func EvalApart(s Spec, z Size, a Apart) (*graph.Graph, error) {
	var batch *graph.Value // the number of the program's batches so far
	return evaluation(s, z, func(c *context, name string, x *graph.Value, cells int) {
		if batch == nil {
			batch = c.b.Var(a.Name(EvalBatches), shape.I32(), graph.Metric, graph.Init{})
		}
		if cells > 0 {
			v := c.b.Var(a.Name(name), shape.I32(cells), graph.Metric, graph.Init{})
			c.b.Assign(v, c.b.One(ops.Tally{Padded: c.lengths != nil}, v, x))
			return
		}
		v := c.b.Var(a.Name(name), shape.F32(append([]int{a.Slots}, x.Meta.Shape...)...), graph.Metric, graph.Init{})
		c.b.Assign(v, c.b.One(ops.RingWrite{Scale: 1}, v, batch, x))
	}, func(c *context) { c.b.Assign(batch, c.b.One(ops.Increment{}, batch)) })
}

// EvalName is the name of a statistic's variable in Eval.
func EvalName(s *metrics.Statistic) string { return "eval/" + s.Name }

// evaluation builds the graph that hands a batch's numbers to collect, and then calls end. The numbers of a
// statistic with cells are each below their number.
func evaluation(s Spec, z Size, collect func(c *context, name string, x *graph.Value, cells int), end func(c *context)) (*graph.Graph, error) {
	s = s.sized(z.Positions)
	c := newContext("eval", s, 1, z.Microbatch)
	c.b.Stop(z.Stop)
	logits := c.forward()
	loss, correct := c.loss(logits)
	if c.b.Err() != nil {
		return nil, c.b.Err()
	}
	x := metrics.Batch{Task: s.task(logits), Output: c.output, Target: c.target, Padded: c.lengths != nil}
	numbers, cells := c.statistics(x)
	if c.b.Err() != nil {
		return nil, c.b.Err()
	}
	defer c.b.InPhase(graph.Update)()
	collect(c, EvalLoss, loss, 0)
	if correct != nil {
		collect(c, EvalCorrect, correct, 0)
	}
	for i, st := range s.Statistics {
		collect(c, EvalName(st), numbers[i], cells[i])
	}
	end(c)
	return c.graph()
}

// statistics appends the numbers of a batch, by statistic, and the outputs that scores
// are made from. cells is the number of cells of each; 0: its numbers are added.
func (c *context) statistics(x metrics.Batch) (numbers []*graph.Value, cells []int) {
	defer c.b.In(c.endLayer("metrics", "metrics"))()
	if c.spec.Scores {
		c.b.Output(EvalScores, c.answer(x.Output))
		c.b.Output(EvalCells, metrics.Cells(c.b, x))
	}
	numbers, cells = make([]*graph.Value, len(c.spec.Statistics)), make([]int, len(c.spec.Statistics))
	for i, s := range c.spec.Statistics {
		if numbers[i], cells[i] = c.statistic(s, x); c.b.Err() != nil {
			break
		}
	}
	return numbers, cells
}

// statistic appends the numbers of one statistic. A panic of its functions, which may be
// the program's, is an error.
func (c *context) statistic(s *metrics.Statistic, x metrics.Batch) (numbers *graph.Value, cells int) {
	defer func() {
		if r := recover(); r != nil {
			c.fail("the statistic %s panicked: %s", s.Name, panics.Text(r))
		}
	}()
	if s.Cells != nil {
		cells = s.Cells(x.Task)
	}
	if numbers = s.Build(c.b, x); numbers == nil {
		c.fail("the statistic %s gives no numbers: its Build must return a value", s.Name)
	}
	return numbers, cells
}

// task describes the answers of a model whose output is logits, but for their number.
// Those whose shape is another than a loss of this module takes have no Kind.
func (s Spec) task(logits *graph.Value) metrics.Task {
	given := sample(logits).Shape
	switch kind := s.Answers(); {
	case kind == metrics.Classes && given.Rank() > 0 && given[:given.Rank()-1].Equal(s.Target.Shape):
		return metrics.Task{Kind: kind, Classes: given.Dim(-1), Right: s.Classifies()}
	case kind != metrics.Classes && given.Equal(s.Target.Shape):
		outputs := s.Terms()
		if s.PerPosition() {
			outputs /= s.Target.Shape[0]
		}
		return metrics.Task{Kind: kind, Outputs: outputs, Right: s.Classifies(), Scaling: s.Scaling}
	}
	return metrics.Task{Right: s.Classifies()}
}

// Task describes the answers of a model. answers is the number of its loss terms about a
// part of the data.
func Task(s Spec, answers int, stop func() error) (metrics.Task, error) {
	c := newContext("eval", s, 1, 1)
	c.b.Stop(stop)
	logits := c.forward()
	if c.b.Err() != nil {
		return metrics.Task{}, c.b.Err()
	}
	t := s.task(logits)
	t.Answers = int64(answers)
	return t, nil
}
