package metrics

import (
	"fmt"
	"math"

	"github.com/berth-ml/berth/internal/units"
)

// MaxClasses is the most classes of a confusion matrix.
const MaxClasses = 1000

// answers are the kinds that are right or wrong.
var answers = []Kind{Classes, Bits}

func init() {
	builtIn(Metric{
		Name: "accuracy", Share: true, Right: true, Usual: true, Doc: "share of right answers",
		Value: func(c *Collected) float64 { return c.Accuracy },
	})
	builtIn(counted("precision", "share of right answers among those of a class, as a mean over the classes (macro) that are in the targets or in the answers; of nothing, 0", macro(hits.precision)))
	builtIn(counted("recall", "share of a class that is found, as a mean over the classes, likewise", macro(hits.recall)))
	builtIn(counted("f1", "harmonic mean of a class's precision and recall, as a mean over the classes (macro), likewise; with bits, of the answer 1", macro(hits.f1)))
	builtIn(positive("precision_positive", "precision of the positive one of two classes, which is the second unless `data.positive` names the other", hits.precision))
	builtIn(positive("recall_positive", "recall of the positive class: its share that is found", hits.recall))
	builtIn(positive("f1_positive", "F1 of the positive class", hits.f1))
	builtIn(micro("precision_micro", "precision of all classes counted together; with classes, it is the accuracy", hits.precision))
	builtIn(micro("recall_micro", "recall of all classes counted together, likewise", hits.recall))
	builtIn(micro("f1_micro", "F1 of all classes counted together, likewise", hits.f1))
	builtIn(counted("confusion", "the confusion matrix: counts by true class (rows) and predicted class (columns), or of one bit", nil))
	builtInFamily(ofClass("precision_class_", "precision of class N, from 0, as `eval` numbers them", hits.precision))
	builtInFamily(ofClass("recall_class_", "recall of class N", hits.recall))
	builtInFamily(ofClass("f1_class_", "F1 of class N", hits.f1))
}

// counted is a metric that follows from the confusion matrix.
func counted(name, doc string, value func(*Collected) float64) Metric {
	return Metric{
		Name: name, Doc: doc, Share: value != nil, Kinds: answers, Needs: []*Statistic{confusion}, Value: value,
		Check: hasMatrix, Quick: func(t Task) bool { return !t.Text },
	}
}

// hasMatrix refuses a confusion matrix of too many classes.
func hasMatrix(t Task) error {
	if n := max(t.Classes, t.Outputs); n > MaxClasses {
		return fmt.Errorf("a confusion matrix has at most %s classes, but the model has %s; leave the metric out", units.Thousands(MaxClasses), units.Thousands(n))
	}
	return nil
}

// positive is a metric of the positive one of two classes. With bits, others are of that already.
func positive(name, doc string, of func(hits) float64) Metric {
	m := counted(name, doc, func(c *Collected) float64 { return of(c.hits()[c.positiveHits()]) })
	m.Check = func(t Task) error {
		if !t.Binary() {
			return fmt.Errorf("it is of the positive one of two classes, and there are %s; name a metric of one class, such as f1_class_1", units.Count(t.classes(), "class"))
		}
		return nil
	}
	m.Quick = func(t Task) bool { return t.Kind == Classes }
	return m
}

// positiveHits is the place of the positive class in hits.
func (c *Collected) positiveHits() int {
	if c.Kind == Bits {
		return 0
	}
	return c.Positive()
}

// micro is a metric over all classes together. With one answer among classes it is the
// accuracy, so `all` leaves it out.
func micro(name, doc string, of func(hits) float64) Metric {
	m := counted(name, doc, func(c *Collected) float64 {
		var all hits
		for _, h := range c.hits() {
			all.right, all.wrong, all.missed = all.right+h.right, all.wrong+h.wrong, all.missed+h.missed
		}
		return of(all)
	})
	m.Quick = func(t Task) bool { return t.Kind == Bits && t.Outputs > 1 }
	return m
}

// ofClass is the metrics of one class each.
func ofClass(prefix, doc string, of func(hits) float64) family {
	return family{prefix, 0, doc, func(n int) Metric {
		m := counted("", "", func(c *Collected) float64 { return of(c.hits()[n]) })
		m.Check = func(t Task) error {
			if err := hasMatrix(t); err != nil {
				return err
			}
			return hasClass(t, n)
		}
		return m
	}}
}

// hasClass refuses the number of a class that is not there.
func hasClass(t Task, n int) error {
	if all := t.classes(); n >= all {
		return fmt.Errorf("there are %s, numbered from 0; name one of them", units.Count(all, "class"))
	}
	return nil
}

// hits counts the answers about one class.
type hits struct {
	right  float64 // answers of samples of the class that are right
	wrong  float64 // answers that name the class for samples of another one
	missed float64 // of the class, but answered otherwise
}

// none reports whether the class is neither in the targets nor in the answers.
func (h hits) none() bool { return h == hits{} }

func (h hits) precision() float64 { return share(h.right, h.wrong) }

func (h hits) recall() float64 { return share(h.right, h.missed) }

func (h hits) f1() float64 { return share(2*h.right, h.wrong+h.missed) }

// share is the part that a has in a+b; 0 of nothing.
func share(a, b float64) float64 {
	if a == 0 {
		return 0
	}
	return a / (a + b)
}

// hits are the counts of each class.
func (c *Collected) hits() []hits {
	cells := c.Of(confusion)
	all := make([]hits, c.classes())
	if c.Kind == Bits {
		for i := range all { // each is a matrix of 4 cells: truth 0 and 1 by answer 0 and 1; the hits of 1 count
			m := cells[4*i : 4*i+4]
			all[i] = hits{right: m[3], wrong: m[1], missed: m[2]}
		}
		return all
	}
	for i, n := range cells {
		truth, answer := i/len(all), i%len(all)
		if truth == answer {
			all[truth].right = n
			continue
		}
		all[truth].missed += n
		all[answer].wrong += n
	}
	return all
}

// macro is the mean over the classes that are in the targets or in the answers.
func macro(of func(hits) float64) func(*Collected) float64 {
	return func(c *Collected) float64 {
		sum, n := 0.0, 0.0
		for _, h := range c.hits() {
			if !h.none() {
				sum, n = sum+of(h), n+1
			}
		}
		return sum / n
	}
}

// ClassScore judges the answers about one class.
type ClassScore struct {
	Answers               int64    // whose truth it is
	Accuracy              *float64 // of the output, with Bits; nil otherwise
	Precision, Recall, F1 float64
	AUC, AveragePrecision *float64 // nil unless scores were collected, and where they are not defined
}

// ByClass judges the answers about each class: with Bits, about each output's 1. It needs
// the confusion matrix; nil without it.
func (c *Collected) ByClass() (list []ClassScore) {
	if c.Of(confusion) == nil {
		return nil
	}
	for i, h := range c.hits() {
		x := ClassScore{Answers: int64(h.right + h.missed), Precision: h.precision(), Recall: h.recall(), F1: h.f1()}
		if c.Kind == Bits {
			x.Accuracy = defined(1 - (h.wrong+h.missed)/c.samples())
		}
		if c.Scores != nil {
			r := c.Scores.class(i)
			x.AUC, x.AveragePrecision = defined(r.auc()), defined(r.averagePrecision())
		}
		list = append(list, x)
	}
	return list
}

// Matrix is the confusion matrix: counts by true class, then by predicted class. It is
// nil where it was not collected, or where there is one for each of several outputs.
func (c *Collected) Matrix() (rows [][]int64) {
	cells := c.Of(confusion)
	if c.Kind == Bits && c.Outputs > 1 || cells == nil {
		return nil
	}
	n := c.Classes
	if c.Kind == Bits {
		n = 2
	}
	for i := range n {
		row := make([]int64, n)
		for j := range row {
			row[j] = int64(cells[i*n+j])
		}
		rows = append(rows, row)
	}
	return rows
}

// defined points to a number; nil for NaN.
func defined(x float64) *float64 {
	if math.IsNaN(x) {
		return nil
	}
	return &x
}
