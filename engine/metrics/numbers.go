package metrics

import "math"

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

func mae(c *Collected) float64 {
	sum := 0.0
	for i, x := range c.Of(errorSums) {
		sum += x * c.Unit(i)
	}
	return sum / float64(c.Answers)
}

// r2 is 1 minus the squared errors over the targets' spread. Of a target that never
// changes, it is 1 where the model gives it exactly, and otherwise 0.
func r2(c *Collected) float64 {
	if c.samples() < 2 {
		return math.NaN()
	}
	sum := 0.0
	squares := c.Of(squareSums)
	for i, x := range squares {
		switch spread := c.Spread[i]; {
		case spread > 0:
			sum += 1 - x/spread
		case x == 0:
			sum++
		}
	}
	return sum / float64(len(squares))
}
