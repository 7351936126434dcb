package command

import (
	"cmp"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/berth-ml/berth"
	"github.com/berth-ml/berth/cmd/trainer/internal/console"
	"github.com/berth-ml/berth/cmd/trainer/internal/text"
	"github.com/berth-ml/berth/internal/columns"
	"github.com/berth-ml/berth/internal/units"
)

const mostClasses = 20 // that a table has

// printEvaluation prints an evaluation: its numbers, and for a few classes a table of
// them and the confusion matrix.
func printEvaluation(out io.Writer, e berth.Evaluation) error {
	fmt.Fprintln(out, numbersOf(e, console.Room(out)))
	if n := len(e.Classes); n > mostClasses {
		fmt.Fprintf(out, "--json has the metrics of each of the %s classes, and the confusion matrix\n", units.Thousands(n))
		return nil
	}
	if n := len(e.Labels); n > 0 && n <= mostClasses {
		return printLabels(out, e.Labels)
	}
	if len(e.Classes) == 0 {
		return nil
	}
	fmt.Fprintln(out)
	if err := printClasses(out, e.Classes); err != nil {
		return err
	}
	return printMatrix(out, e)
}

// numbersOf is the loss of an evaluation and its metrics, in lines of room characters, and
// what there is to say about them.
func numbersOf(e berth.Evaluation, room int) string {
	of := map[string]string{"training": " of the training part", "validation": " of the validation part", "test": " of the test part", "all": " of other data"}[e.Part]
	line := fmt.Sprintf("%s%s, loss %s%s", units.Count(e.Samples, "sample"), of, text.Loss(e.Loss), text.RMSE(", ", e.RMSE))
	if e.Accuracy != nil {
		line += ", accuracy " + text.Share(*e.Accuracy)
	}
	if e.Perplexity != nil {
		line += ", perplexity " + units.Number(*e.Perplexity)
	}
	if e.BitsPerByte != nil {
		line += ", " + units.Number(*e.BitsPerByte) + " bits per byte"
	}
	line += text.Metrics(", ", e.Metrics.Names(), e.Metrics, map[string]*float64{
		"accuracy": e.Accuracy, "rmse": e.RMSE, "perplexity": e.Perplexity, "bits_per_byte": e.BitsPerByte,
	})
	if line = wrapped(line, room); len(e.Classes) == 0 {
		return line
	}
	return line + averageOf(e) + curvesOf(e)
}

// curvesOf says of how many labels, that are each 0 or 1, the means of curves are, where that is not
// all of them.
func curvesOf(e berth.Evaluation) (lines string) {
	for _, x := range []struct {
		name string
		of   func(berth.ClassResult) *float64
	}{
		{"auc", func(c berth.ClassResult) *float64 { return c.AUC }},
		{"average_precision", func(c berth.ClassResult) *float64 { return c.AveragePrecision }},
	} {
		defined := 0
		for _, c := range e.Classes {
			if x.of(c) != nil {
				defined++
			}
		}
		if e.Classes[0].Accuracy != nil && e.Metrics.Get(x.name) != nil && defined < len(e.Classes) {
			lines += fmt.Sprintf("\n%s is the mean of %s of %s: the others are the same in every row", x.name, units.Thousands(defined), units.Count(len(e.Classes), "label"))
		}
	}
	return lines
}

// averageOf says which average precision, recall and f1 are, as a line of its own, where one
// of them is there.
func averageOf(e berth.Evaluation) string {
	if e.Metrics.Get("f1") == nil && e.Metrics.Get("precision") == nil && e.Metrics.Get("recall") == nil {
		return ""
	}
	if e.Average == "binary" {
		return "\nprecision, recall and f1 are of the answer 1"
	}
	line := "\nprecision, recall and f1 are means over the classes (macro)"
	if e.Classes[0].Accuracy != nil {
		line = "\nprecision, recall and f1 are means over the labels (macro)"
	}
	if e.Positive != "" {
		line += fmt.Sprintf("\nthe positive class is %q (data.positive)", text.Short(e.Positive, 24))
	}
	return line
}

// wrapped cuts a list between its items into lines of room characters.
func wrapped(list string, room int) string {
	items := strings.Split(list, ", ")
	lines := items[:1:1]
	for _, item := range items[1:] {
		last := &lines[len(lines)-1]
		*last += ","
		if utf8.RuneCountInString(*last)+1+utf8.RuneCountInString(item) < room { // and a comma
			*last += " " + item
			continue
		}
		lines = append(lines, item)
	}
	return strings.Join(lines, "\n")
}

// printClasses prints the metrics of each class.
func printClasses(out io.Writer, list []berth.ClassResult) error {
	head := []string{"CLASS", "LABEL", "ANSWERS", "PRECISION", "RECALL", "F1", "AUC", "AVG PREC"}
	each := len(list) > 1 && list[0].Accuracy != nil // labels that are each 0 or 1
	if each {
		head = slices.Insert(head, 3, "ACCURACY")
	}
	rows := [][]string{head}
	for _, c := range list {
		row := []string{
			fmt.Sprint(c.Class), columns.Cut(c.Label, 24), units.Thousands(c.Answers), text.Share(c.Precision), text.Share(c.Recall),
			text.Share(c.F1), orDash(c.AUC, text.Loss), orDash(c.AveragePrecision, text.Loss),
		}
		if each {
			row = slices.Insert(row, 3, orDash(c.Accuracy, text.Share))
		}
		rows = append(rows, row)
	}
	l := columns.Layout{Cut: []int{1}, Drop: []int{len(head) - 1, len(head) - 2, 2}, Width: console.Room(out)}
	for i := range head {
		l.Right = append(l.Right, i)
	}
	_, err := io.WriteString(out, columns.Format(rows, l))
	return err
}

// printLabels prints the metrics of each of several numbers.
func printLabels(out io.Writer, list []berth.LabelResult) error {
	rows := [][]string{{"LABEL", "RMSE", "MAE", "R2"}}
	for i, x := range list {
		rows = append(rows, []string{text.Short(cmp.Or(x.Label, fmt.Sprint(i)), 24), units.Number(x.RMSE), units.Number(x.MAE), orDash(x.R2, text.Loss)})
	}
	_, err := fmt.Fprintf(out, "\n%s", columns.Format(rows, columns.Layout{Right: []int{1, 2, 3}, Cut: []int{0}, Width: console.Room(out)}))
	return err
}

// orDash is a number in words, or a dash for one that is not defined.
func orDash(v *float64, words func(float64) string) string {
	if v == nil {
		return "-"
	}
	return words(*v)
}

// mostLabel is the most characters of a class's name beside a confusion matrix.
const mostLabel = 16

// printMatrix prints the confusion matrix, with the names of the classes where a line of
// it fits so, or else with their numbers.
func printMatrix(out io.Writer, e berth.Evaluation) error {
	n := len(e.Confusion)
	if n == 0 {
		return nil
	}
	room := min(console.Room(out), columns.Width)
	for _, name := range []func(i int) string{
		func(i int) string {
			if len(e.Classes) != n {
				return fmt.Sprint(i)
			}
			return cmp.Or(columns.Cut(e.Classes[i].Label, mostLabel), fmt.Sprint(i))
		},
		func(i int) string { return fmt.Sprint(i) },
	} {
		if text, width := matrixTable(e.Confusion, name); width <= room {
			_, err := fmt.Fprintf(out, "\nconfusion matrix: a row for each true class, a column for each predicted one\n%s", text)
			return err
		}
	}
	_, err := fmt.Fprintln(out, "\nthe confusion matrix is in the output of --json, and trainer plot draws that")
	return err
}

// matrixTable is a confusion matrix as a table, and the characters of its lines.
func matrixTable(confusion [][]int64, name func(i int) string) (text string, width int) {
	rows := [][]string{{""}}
	l := columns.Layout{Right: []int{0}, Width: math.MaxInt}
	for i, row := range confusion {
		rows[0] = append(rows[0], name(i))
		l.Right = append(l.Right, i+1)
		cells := []string{name(i)}
		for _, v := range row {
			cells = append(cells, units.Thousands(v))
		}
		rows = append(rows, cells)
	}
	text = columns.Format(rows, l)
	first, _, _ := strings.Cut(text, "\n")
	return text, utf8.RuneCountInString(first)
}
