package metrics

import (
	"fmt"
	"math"

	"github.com/berth-ml/berth/internal/units"
)

func init() {
	builtIn(Metric{
		Name: "rmse", Kinds: []Kind{Numbers}, Lower: true, Usual: true, Needs: []*Statistic{squareSums}, Value: rmse,
		Doc: "root of the mean squared error, in the unit of the target",
	})
	builtIn(Metric{
		Name: "mae", Kinds: []Kind{Numbers}, Lower: true, Usual: true, Needs: []*Statistic{errorSums}, Value: mae,
		Doc: "mean absolute error, in the unit of the target",
	})
	builtIn(Metric{
		Name: "r2", Kinds: []Kind{Numbers}, Usual: true, Needs: []*Statistic{squareSums}, Spread: true, Value: r2,
		Doc: "R², the share of the targets' variance that the model explains: 1 is perfect, 0 is as good as always giving the mean, less is worse. With several numbers in a target, the mean of theirs",
	})
	builtInFamily(ofOutput("rmse_label_", "`rmse` of number N of a target that has several, from 0: of a table, of the label in that place", true, squareSums, (*Collected).rmseOf))
	builtInFamily(ofOutput("mae_label_", "`mae` of number N, likewise", true, errorSums, (*Collected).maeOf))
	builtInFamily(ofOutput("r2_label_", "`r2` of number N, likewise", false, squareSums, (*Collected).r2Of))
}

// ofOutput is the metrics of one number of a target each.
func ofOutput(prefix, doc string, lower bool, needs *Statistic, of func(c *Collected, i int) float64) family {
	return family{prefix, 0, doc, func(n int) Metric {
		return Metric{
			Kinds: []Kind{Numbers}, Lower: lower, Needs: []*Statistic{needs}, Spread: !lower,
			Check: func(t Task) error {
				if n >= t.Outputs {
					return fmt.Errorf("a target has %s, counted from 0; name one of them", units.Count(t.Outputs, "number"))
				}
				return nil
			},
			Value: func(c *Collected) float64 { return of(c, n) },
		}
	}}
}

// samples is the number of answers about each output.
func (c *Collected) samples() float64 { return float64(c.Answers) / float64(c.Outputs) }

// rmse has the mean over all outputs below the root.
func rmse(c *Collected) float64 {
	sum := 0.0
	for i, x := range c.Of(squareSums) {
		sum += x * c.Unit(i) * c.Unit(i)
	}
	return math.Sqrt(sum / float64(c.Answers))
}

func (c *Collected) rmseOf(i int) float64 {
	return c.Unit(i) * math.Sqrt(c.Of(squareSums)[i]/c.samples())
}

func mae(c *Collected) float64 {
	sum := 0.0
	for i, x := range c.Of(errorSums) {
		sum += x * c.Unit(i)
	}
	return sum / float64(c.Answers)
}

func (c *Collected) maeOf(i int) float64 { return c.Unit(i) * c.Of(errorSums)[i] / c.samples() }

func r2(c *Collected) float64 {
	sum := 0.0
	for i := range c.Of(squareSums) {
		sum += c.r2Of(i)
	}
	return sum / float64(len(c.Of(squareSums)))
}

// r2Of is 1 minus the squared errors over the targets' spread. Of a target that never
// changes, it is 1 where the model gives it exactly, and otherwise 0.
func (c *Collected) r2Of(i int) float64 {
	x := c.Of(squareSums)[i]
	switch spread := c.Spread[i]; {
	case c.samples() < 2:
		return math.NaN()
	case spread > 0:
		return 1 - x/spread
	case x == 0:
		return 1
	}
	return 0
}

// OutputScore judges the answers about one number of a target. R2 is nil where it is not defined.
type OutputScore struct {
	RMSE, MAE float64
	R2        *float64
}

// ByOutput judges the answers about each number of a target. It needs what rmse, mae and r2 need;
// nil without that.
func (c *Collected) ByOutput() (list []OutputScore) {
	if c.Of(squareSums) == nil || c.Of(errorSums) == nil || c.Spread == nil {
		return nil
	}
	for i := range c.Outputs {
		list = append(list, OutputScore{c.rmseOf(i), c.maeOf(i), defined(c.r2Of(i))})
	}
	return list
}
