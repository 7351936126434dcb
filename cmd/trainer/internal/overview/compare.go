package overview

import (
	"context"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/berth-ml/berth/cmd/trainer/internal/cli"
	"github.com/berth-ml/berth/cmd/trainer/internal/console"
	"github.com/berth-ml/berth/cmd/trainer/internal/text"
	"github.com/berth-ml/berth/internal/columns"
	"github.com/berth-ml/berth/internal/units"
)

func compareCommand(resting func(context.Context) ([]Resting, error)) *cobra.Command {
	c := &cobra.Command{
		Use: "compare RUN RUN…", Short: "Compare the configs and metrics of runs",
		Long:    "Compare runs: the keys of their configs that differ, with the value of each run (- where a run has no such key), and their metrics and results of the test part side by side. Runs that do not fit beside each other follow below.",
		Example: "  trainer runs compare runs/digits runs/digits-2", Args: cli.ArgsBetween(2, math.MaxInt),
	}
	asJSON := c.Flags().Bool("json", false, "print a JSON object")
	c.RunE = func(c *cobra.Command, args []string) error {
		list, err := summarize(args, told(c, resting))
		if err != nil {
			return err
		}
		keys, err := differences(list)
		if err != nil {
			return err
		}
		if *asJSON {
			return printJSON(c.OutOrStdout(), comparison(list, keys))
		}
		_, err = io.WriteString(c.OutOrStdout(), compared(list, keys, console.Room(c.OutOrStdout()))+crossValidated(list, keys))
		return err
	}
	return c
}

// Difference is a key whose values differ; "" where a run has no such key.
type Difference struct {
	Key    string   `json:"key"`
	Values []string `json:"values"` // by run
}

// differences are the keys of the runs' configs that differ, in the order of the
// configs. A run whose config cannot be read has none of them.
func differences(list []summarized) (out []Difference, err error) {
	var names []string // of keys; those of later configs stand behind the key before them
	values := make([]map[string]string, len(list))
	for i, s := range list {
		values[i] = map[string]string{}
		if s.Config == nil {
			continue
		}
		settings, err := s.Config.AllSettings()
		if err != nil {
			return nil, err
		}
		at := 0
		for _, x := range settings {
			values[i][x.Key] = x.Value
			if known := slices.Index(names, x.Key); known >= 0 {
				at = known + 1
				continue
			}
			names = slices.Insert(names, at, x.Key)
			at++
		}
	}
	for _, name := range names {
		d := Difference{Key: name}
		for i := range list {
			d.Values = append(d.Values, values[i][name])
		}
		if slices.ContainsFunc(d.Values, func(v string) bool { return v != d.Values[0] }) {
			out = append(out, d)
		}
	}
	return out, nil
}

// crossValidated is the mean of the best values of runs that differ in their folds alone, and of the other values of
// the validation at the same checkpoints; "" for other runs. Kinds of columns may differ, too: each run finds them in the
// rows that it trains on.
func crossValidated(list []summarized, keys []Difference) string {
	folds := false
	for _, d := range keys {
		folds = folds || d.Key == foldKey
		if d.Key != foldKey && d.Key != "name" && !strings.HasPrefix(d.Key, "data.columns") {
			return ""
		}
	}
	best := list[0].Best.Metric
	var values []float64
	for _, s := range list {
		if s.Best.Metric == "" || s.Best.Metric != best {
			return ""
		}
		values = append(values, s.Best.Value)
	}
	if !folds {
		return ""
	}
	out := fmt.Sprintf("best %s of %d folds: %s\n", best, len(list), averaged(best, values))
	for _, name := range slices.Sorted(maps.Keys(list[0].BestValues)) {
		if values := atBest(list, name); name != best && strings.HasPrefix(name, "val_") && values != nil {
			out += fmt.Sprintf("%s there: %s\n", name, averaged(name, values))
		}
	}
	return out
}

// atBest is a metric at the best checkpoint of each run; nil if one has none.
func atBest(list []summarized, name string) (values []float64) {
	for _, s := range list {
		v, ok := s.BestValues[name]
		if !ok {
			return nil
		}
		values = append(values, v)
	}
	return values
}

// averaged is the mean of two values or more of a metric, and their deviation.
func averaged(name string, values []float64) string {
	var sum, squares float64
	for _, v := range values {
		sum += v
	}
	n := float64(len(values))
	for _, v := range values {
		squares += (v - sum/n) * (v - sum/n)
	}
	return fmt.Sprintf("%s on average, with a deviation of %s", text.Metric(name, sum/n), text.Metric(name, math.Sqrt(squares/(n-1))))
}

// foldKey is the key that the runs of a cross-validation differ in.
const foldKey = "data.split.fold"

// compared is runs as compare prints them, in lines of width characters, and so in as
// many tables as their widths need.
func compared(list []summarized, keys []Difference, width int) (out string) {
	rows := [][]string{{""}, {"state"}, {"steps"}, {"epochs"}}
	for _, s := range list {
		for i, cell := range []string{s.dir, string(s.condition()), s.steps(), s.epochs()} {
			rows[i] = append(rows[i], cell)
		}
	}
	row := func(name string, of func(i int) string) {
		cells := []string{name}
		for i := range list {
			cells = append(cells, orDash(of(i)))
		}
		rows = append(rows, cells)
	}
	for _, d := range keys {
		row(d.Key, func(i int) string { return d.Values[i] })
	}
	measured := func(of func(summarized) map[string]float64) {
		for _, name := range metricNames(list, of) {
			row(name, func(i int) string {
				if v, ok := of(list[i])[name]; ok {
					return value(name, v)
				}
				return ""
			})
		}
	}
	measured(summarized.metrics)
	row("best", func(i int) string { return list[i].best() })
	measured(summarized.tests)
	row("size", func(i int) string { return units.Bytes(list[i].Bytes) })
	for first := 1; first <= len(list); {
		n := fitting(rows, first, width)
		var part [][]string
		for _, r := range rows {
			part = append(part, append([]string{r[0]}, r[first:first+n]...))
		}
		if first > 1 {
			out += "\n"
		}
		out += columns.Format(part, columns.Layout{Cut: append(values(n), 0), Width: width})
		first += n
	}
	return out
}

const (
	mostName  = 32 // characters of a key
	mostValue = 28 // characters of a value, where several stand side by side
)

// fitting is the number of the columns from first on that fit beside the names, in lines
// of room characters: at least one.
func fitting(rows [][]string, first, room int) int {
	width := func(i, most int) (w int) {
		for _, r := range rows {
			w = max(w, min(most, utf8.RuneCountInString(r[i])))
		}
		return w
	}
	left := room - width(0, mostName)
	n := 0
	for i := first; i < len(rows[0]); i++ {
		if left -= 2 + width(i, mostValue); left < 0 && n > 0 {
			break
		}
		n++
	}
	return n
}

// values are the columns of values, which may be cut.
func values(n int) (list []int) {
	for i := range n {
		list = append(list, i+1)
	}
	return list
}

// compareRecord is what compare --json prints.
type compareRecord struct {
	Runs   []Record     `json:"runs"`
	Config []Difference `json:"config"`
}

func comparison(list []summarized, keys []Difference) compareRecord {
	r := compareRecord{Config: keys}
	if keys == nil {
		r.Config = []Difference{}
	}
	for _, s := range list {
		r.Runs = append(r.Runs, s.record())
	}
	return r
}
