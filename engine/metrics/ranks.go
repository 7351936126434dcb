package metrics

import (
	"cmp"
	"fmt"
	"math"
	"strconv"

	"github.com/berth-ml/berth/internal/units"
)

func init() {
	builtIn(ranked("auc", "area under the ROC curve: how often an answer of the class has a higher score than another one; equals count half. With two classes, of the positive one; with more, the mean of each class against the rest. Not defined where a class is absent. Of several labels, the mean of those for which it is defined, which vary in the rows", ranking.auc))
	builtIn(ranked("average_precision", "area under the curve of precision over recall, as a sum without interpolation; otherwise as `auc`", ranking.averagePrecision))
	builtInFamily(family{topPrefix, 1, "share of answers whose true class is among the N likeliest: `top_5`", top})
	builtInFamily(rankedClass("auc_class_", "area under the ROC curve of class N against the rest", ranking.auc))
	builtInFamily(rankedClass("average_precision_class_", "area under the curve of precision over recall of class N against the rest", ranking.averagePrecision))
}

const (
	topPrefix = "top_"
	topOfAll  = 5 // that `all` includes
)

func topName(n int) string { return topPrefix + strconv.Itoa(n) }

// top is the share of answers whose true class is among the n likeliest.
func top(n int) Metric {
	return Metric{
		Share: true, Kinds: []Kind{Classes}, Needs: []*Statistic{ranks},
		Check: func(t Task) error {
			if n >= t.Classes {
				return fmt.Errorf("it is always 1 with %s; take a smaller number", units.Count(t.Classes, "class"))
			}
			return nil
		},
		Value: func(c *Collected) float64 {
			found := 0.0
			for _, k := range c.Of(ranks)[:n] {
				found += k
			}
			return found / float64(c.Answers)
		},
	}
}

// mostRanked is the most classes whose answers have a cell: see ops.Outcome.
const mostRanked = 46340

// hasRanking refuses scores of too few or too many classes.
func hasRanking(t Task) error {
	if t.Kind == Classes && (t.Classes < 2 || t.Classes > mostRanked) {
		return fmt.Errorf("the metric needs 2 to %s classes, but the model has %s", units.Thousands(mostRanked), units.Thousands(t.Classes))
	}
	return nil
}

// ranked is a metric that follows from the scores of answers.
func ranked(name, doc string, of func(ranking) float64) Metric {
	return Metric{
		Name: name, Doc: doc, Kinds: answers, Scores: true,
		Check: hasRanking,
		Quick: func(t Task) bool { return !t.Text },
		Value: func(c *Collected) float64 {
			if c.Kind == Classes && c.Binary() {
				return of(c.Scores.class(c.Positive()))
			}
			sum, n := 0.0, 0
			for k := range c.Scores.lists {
				if v := of(c.Scores.ranking(k)); c.Kind == Classes || !math.IsNaN(v) {
					sum, n = sum+v, n+1
				}
			}
			return sum / float64(n)
		},
	}
}

// rankedClass is such metrics of one class each.
func rankedClass(prefix, doc string, of func(ranking) float64) family {
	return family{prefix, 0, doc, func(n int) Metric {
		m := ranked("", "", of)
		m.Check = func(t Task) error { return cmp.Or(hasRanking(t), hasClass(t, n)) }
		m.Value = func(c *Collected) float64 { return of(c.Scores.class(n)) }
		return m
	}}
}
