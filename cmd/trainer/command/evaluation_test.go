package command

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/berth-ml/berth"
)

// Any number of metrics fits the lines of an evaluation, and none is lost or cut in two. In a
// pipe the result is one line.
func TestMetricsFitTheirLines(t *testing.T) {
	e := berth.Evaluation{Samples: 1360, Part: "validation", Loss: 0.25, Metrics: map[string]float64{}, Classes: []berth.ClassResult{{Class: 0}, {Class: 1}}}
	for i := range 40 {
		e.Metrics[fmt.Sprintf("metric_%0*d", 1+i%17, i)] = float64(i) / 40
	}
	for _, room := range []int{59, 79, 119} {
		got := numbersOf(e, room)
		lines := strings.Split(got, "\n")
		for i, line := range lines {
			if next := strings.Index(strings.Join(lines[i+1:], " "), ","); len(line) > room || next > 0 && len(line)+1+next+1 < room {
				t.Errorf("%d characters of %d: %s", len(line), room, line)
			}
		}
		if one := numbersOf(e, math.MaxInt); strings.ReplaceAll(got, "\n", " ") != one {
			t.Errorf("%q, and in a pipe %q", got, one)
		}
	}
	if got, want := numbersOf(e, math.MaxInt), "1,360 samples of the validation part, loss 0.2500, metric_0 0, "; !strings.HasPrefix(got, want) {
		t.Errorf("%q, want %q", got, want)
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
		if change(); !strings.Contains(numbersOf(e, math.MaxInt), want) {
			t.Errorf("%q, want %q", numbersOf(e, math.MaxInt), want)
		}
	}
	e.Metrics = map[string]float64{"auc": 0.5}
	if got := numbersOf(e, math.MaxInt); strings.Contains(got, "f1") {
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
	if got := numbersOf(e, math.MaxInt); !strings.HasSuffix(got, "\nauc is the mean of 1 of 2 labels: the others are the same in every row") {
		t.Error(got)
	}
	e.Classes[1].AUC = &half
	if got := numbersOf(e, math.MaxInt); strings.Contains(got, "is the mean of") {
		t.Error(got)
	}
}
