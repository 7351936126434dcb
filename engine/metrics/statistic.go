package metrics

import (
	"slices"

	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/engine/ops"
)

// Statistic is numbers that are collected over the samples of a part.
type Statistic struct {
	Name string // of its own
	// Build appends the nodes that compute a batch's numbers: of f32, which are added
	// batch by batch, or with Cells of i32.
	Build func(b *graph.Builder, x Batch) *graph.Value
	// Cells is the number of cells for a task. Each number that Build gives is one of
	// them, from 0, and the statistic is how often each occurs. Nil: numbers are added.
	Cells func(Task) int
}

// Batch is a batch of answers, as the loss gets them: numbers are scaled as the task says.
type Batch struct {
	Task
	Output *graph.Value // of the model, without the softmax or sigmoid that the loss applies
	Target *graph.Value
	Padded bool // samples have lengths: a class of -1 is padding, which does not count; of numbers, axis 1 counts positions
}

// Unscaled appends the nodes that turn outputs or targets, which are Numbers, into numbers of
// the data. Differences need no more than [Task.Unit], in Value.
func (x Batch) Unscaled(b *graph.Builder, v *graph.Value) *graph.Value {
	if x.Scaling == nil {
		return v
	}
	mean, std := x.Scaling.Mean, x.Scaling.Std
	if len(std) == 1 {
		return b.One(ops.Affine{Scale: std[0], Shift: mean[0]}, v)
	}
	last := v.Meta.Shape.Rank() - 1
	outputs := make([]*graph.Value, len(std))
	for i := range std {
		start, stop := make([]int, last+1), slices.Clone(v.Meta.Shape)
		start[last], stop[last] = i, i+1
		outputs[i] = b.One(ops.Affine{Scale: std[i], Shift: mean[i]}, ops.SliceOf(b, v, start, stop))
	}
	return ops.ConcatOf(b, last, outputs...)
}

// confusion is a confusion matrix [true][predicted] of classes, or one [2][2] for each
// output.
var confusion = &Statistic{
	Name: "confusion",
	Build: func(b *graph.Builder, x Batch) *graph.Value {
		if x.Kind == Bits {
			return b.One(ops.BinaryOutcome{}, x.Output, x.Target)
		}
		return b.One(ops.Outcome{Padded: x.Padded}, x.Output, x.Target)
	},
	Cells: func(t Task) int {
		if t.Kind == Bits {
			return 4 * t.Outputs
		}
		return t.Classes * t.Classes
	},
}

// Cells appends the nodes that compute each answer's cell in the confusion matrix, from
// which [Scores.Add] takes the truth.
func Cells(b *graph.Builder, x Batch) *graph.Value { return confusion.Build(b, x) }

// ranks counts answers by the number of classes that the model finds likelier than the
// true one.
var ranks = &Statistic{
	Name: "ranks",
	Build: func(b *graph.Builder, x Batch) *graph.Value {
		return b.One(ops.Rank{Padded: x.Padded}, x.Output, x.Target)
	},
	Cells: func(t Task) int { return t.Classes },
}

// The sums are over the samples, one for each number of a target: of how far off an
// answer is, and of the square of that.
var (
	errorSums  = &Statistic{Name: "errors", Build: perOutput("abs")}
	squareSums = &Statistic{Name: "squares", Build: perOutput("square")}
)

// perOutput sums a function of differences over the samples of a batch, and over the
// positions of those that have lengths, with which the padding of output and target is equal.
func perOutput(fn string) func(b *graph.Builder, x Batch) *graph.Value {
	return func(b *graph.Builder, x Batch) *graph.Value {
		axes := []int{0}
		if x.Padded {
			axes = []int{0, 1}
		}
		d := b.One(ops.Unary{Fn: fn}, ops.Sub(b, x.Output, x.Target))
		return b.One(ops.Reduce{Fn: "sum", Axes: axes}, d)
	}
}

// Collected is what an evaluation collected over the samples of a part.
type Collected struct {
	Task
	Loss     float64 // mean over the answers
	Accuracy float64 // share of right answers; 0 for Numbers
	Scores   *Scores // nil unless a metric needs them: [Metric.Scores]
	// Spread is by output: the sum of the squared deviations of the targets from their
	// mean, in the model's unit. Nil unless a metric needs it: [Metric.Spread].
	Spread []float64
	// Bytes is of a text: those that the answers stand for. 0: not known, or no metric
	// needs it: [Metric.Bytes].
	Bytes int64

	sums map[*Statistic][]float64
}

// Set gives the collected numbers of a statistic.
func (c *Collected) Set(s *Statistic, numbers []float64) {
	if c.sums == nil {
		c.sums = map[*Statistic][]float64{}
	}
	c.sums[s] = numbers
}

// Of is the collected numbers of a statistic: sums, or the count of each cell.
func (c *Collected) Of(s *Statistic) []float64 { return c.sums[s] }
