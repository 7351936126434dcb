package command

import (
	"fmt"
	"strings"
	"testing"

	"github.com/berth-ml/berth"
	"github.com/berth-ml/berth/internal/columns"
)

// Any number of metrics fits the lines of an evaluation, and none is lost or cut in two.
func TestMetricsFitTheirLines(t *testing.T) {
	e := berth.Evaluation{Samples: 360, Part: "validation", Loss: 0.25, Metrics: map[string]float64{}}
	for i := range 40 {
		e.Metrics[fmt.Sprintf("metric_%0*d", 1+i%17, i)] = float64(i) / 40
	}
	for _, classes := range [][]berth.ClassResult{nil, {{Class: 0}, {Class: 1}}} {
		e.Classes = classes
		got := numbersOf(e)
		for line := range strings.SplitSeq(got, "\n") {
			if len(line) > columns.Width {
				t.Errorf("%d characters: %s", len(line), line)
			}
		}
		for _, name := range e.Metrics.Names() {
			if item := fmt.Sprintf("%s %.4g", name, e.Metrics[name]); !strings.Contains(got, item) {
				t.Errorf("no %q in\n%s", item, got)
			}
		}
		if begins := strings.Contains(got, "loss 0.2500\nmetric_"); begins != (classes != nil) {
			t.Errorf("%d classes: the metrics begin a line: %v, in\n%s", len(classes), begins, got)
		}
	}
}

// An evaluation says of which classes its F1 is.
func TestAverageOfF1IsNamed(t *testing.T) {
	e := berth.Evaluation{Samples: 10, Part: "validation", Metrics: map[string]float64{"f1": 0.5}}
	half := 0.5
	for want, change := range map[string]func(){
		"f1 are of the answer 1":                                                        func() { e.Average, e.Classes = "binary", make([]berth.ClassResult, 1) },
		"f1 are means over the classes (macro)":                                         func() { e.Average, e.Classes = "macro", make([]berth.ClassResult, 3) },
		"f1 are means over the labels (macro)":                                          func() { e.Classes = []berth.ClassResult{{Accuracy: &half}, {Accuracy: &half}} },
		"means over the classes (macro)\nthe positive class is \"yes\" (data.positive)": func() { e.Classes, e.Positive = make([]berth.ClassResult, 2), "yes" },
	} {
		e.Average, e.Positive = "macro", ""
		if change(); !strings.Contains(numbersOf(e), want) {
			t.Errorf("%q, want %q", numbersOf(e), want)
		}
	}
	e.Metrics = map[string]float64{"auc": 0.5}
	if got := numbersOf(e); strings.Contains(got, "f1") {
		t.Errorf("without f1: %q", got)
	}
}

// A confusion matrix has the names of classes, unless it is too wide with them.
func TestMatrixNamesClasses(t *testing.T) {
	e := berth.Evaluation{Confusion: [][]int64{{50, 4}, {14, 22}}, Classes: []berth.ClassResult{{Label: "no"}, {Class: 1, Label: "yes"}}}
	shown := func() string {
		var b strings.Builder
		if err := printMatrix(&b, e); err != nil {
			t.Fatal(err)
		}
		return b.String()
	}
	if got := shown(); !strings.HasSuffix(got, "one\n     no  yes\n no  50    4\nyes  14   22\n") {
		t.Error(got)
	}
	e.Classes = e.Classes[:1]
	if got := shown(); !strings.HasSuffix(got, "one\n    0   1\n0  50   4\n1  14  22\n") {
		t.Error(got)
	}
	e.Confusion, e.Classes = nil, nil
	for i := range 10 {
		e.Confusion, e.Classes = append(e.Confusion, make([]int64, 10)), append(e.Classes, berth.ClassResult{Class: i, Label: "a class with a name"})
	}
	if got := shown(); !strings.Contains(got, "\n   0  1  2  3") {
		t.Error(got)
	}
}

// A mean of curves says of how many labels it is, if one has none.
func TestCurvesOfConstantLabels(t *testing.T) {
	half := 0.5
	e := berth.Evaluation{Samples: 10, Part: "validation", Metrics: map[string]float64{"auc": 0.5, "average_precision": 0.5}}
	e.Classes = []berth.ClassResult{{Accuracy: &half, AUC: &half, AveragePrecision: &half}, {Accuracy: &half, AveragePrecision: &half}}
	if got := numbersOf(e); !strings.HasSuffix(got, "\nauc is the mean of 1 of 2 labels: the others are the same in every row") {
		t.Error(got)
	}
	e.Classes[1].AUC = &half
	if got := numbersOf(e); strings.Contains(got, "is the mean of") {
		t.Error(got)
	}
}
