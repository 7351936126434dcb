package command

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/berth-ml/berth"
	"github.com/berth-ml/berth/cmd/trainer/internal/text"
)

const (
	mostClasses = 20 // that a table has
	mostColumns = 12 // of a confusion matrix
)

// printEvaluation prints an evaluation: a line, the metrics, and for a few classes a
// table of them and the confusion matrix.
func printEvaluation(out io.Writer, e berth.Evaluation) error {
	of := map[string]string{"training": " trained on", "all": " of other data"}[e.Part]
	fmt.Fprintf(out, "%s%s, loss %s%s", text.Count(e.Samples, "sample"), of, text.Loss(e.Loss), text.RMSE(", ", e.RMSE))
	if e.Accuracy != nil {
		fmt.Fprintf(out, ", accuracy %.2f%%", 100**e.Accuracy)
	}
	if e.Perplexity != nil {
		fmt.Fprintf(out, ", perplexity %.4g", *e.Perplexity)
	}
	if e.BitsPerByte != nil {
		fmt.Fprintf(out, ", %.4g bits per byte", *e.BitsPerByte)
	}
	fmt.Fprintln(out)
	line := text.Metrics(", ", e.Metrics.Names(), e.Metrics, "accuracy", "rmse", "perplexity", "bits_per_byte")
	if line != "" {
		fmt.Fprintln(out, strings.TrimPrefix(line, ", "))
	}
	if n := len(e.Classes); n > mostClasses {
		fmt.Fprintf(out, "--json has the metrics of each of the %s classes, and the confusion matrix\n", text.Commas(int64(n)))
		return nil
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

// printClasses prints the metrics of each class.
func printClasses(out io.Writer, list []berth.ClassResult) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "CLASS\tLABEL\tANSWERS\tPRECISION\tRECALL\tF1\tAUC\tAVERAGE PRECISION\t")
	for _, c := range list {
		fmt.Fprintf(w, "%d\t%s\t%d\t%.4f\t%.4f\t%.4f\t%s\t%s\t\n", c.Class, text.Short(c.Label, 24), c.Answers, c.Precision, c.Recall, c.F1,
			orDash(c.AUC), orDash(c.AveragePrecision))
	}
	return w.Flush()
}

// orDash is a number, or a dash for one that is not defined.
func orDash(v *float64) string {
	if v == nil {
		return "-"
	}
	return fmt.Sprintf("%.4f", *v)
}

// printMatrix prints the confusion matrix, if it is small.
func printMatrix(out io.Writer, e berth.Evaluation) error {
	n := len(e.Confusion)
	if n == 0 {
		return nil
	}
	if n > mostColumns {
		fmt.Fprintln(out, "\n--json has the confusion matrix")
		return nil
	}
	fmt.Fprintln(out, "\nconfusion matrix: a row for each true class, a column for each predicted one")
	w := tabwriter.NewWriter(out, 0, 0, 1, ' ', tabwriter.AlignRight)
	header := slices.Repeat([]string{""}, n)
	for i := range header {
		header[i] = fmt.Sprint(i)
	}
	fmt.Fprintf(w, "\t%s\t\n", strings.Join(header, "\t"))
	for i, row := range e.Confusion {
		fmt.Fprintf(w, "%d\t", i)
		for _, v := range row {
			fmt.Fprintf(w, "%d\t", v)
		}
		fmt.Fprintln(w)
	}
	return w.Flush()
}
