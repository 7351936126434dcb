package command

import (
	"bytes"
	"cmp"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/berth-ml/berth"
	"github.com/berth-ml/berth/cmd/trainer/internal/cli"
	"github.com/berth-ml/berth/datasets"
	"github.com/berth-ml/berth/internal/columns"
)

// The formats of answers: the values of --format.
const (
	formatLines = "jsonl"
	formatCSV   = "csv"
)

// suffixes maps a file's suffix to its format.
var suffixes = map[string]string{".jsonl": formatLines, ".json": formatLines, ".csv": formatCSV, "": formatLines}

// answerFormat is the format of answers: the given one or, without one, that of
// the file's suffix.
func answerFormat(given, file string) (string, error) {
	suffix := strings.ToLower(filepath.Ext(file))
	meant, known := suffixes[suffix]
	switch {
	case given != "" && given != formatLines && given != formatCSV:
		return "", cli.Usagef("--format %s: expected jsonl or csv", given)
	case given == "" && !known:
		return "", cli.Usagef("--out %s: the suffix %s names no format: end the name in .csv or .jsonl, or give --format csv or --format jsonl", file, suffix)
	case given != "" && known && suffix != "" && meant != given:
		return "", cli.Usagef("--out %s: the suffix means %s, but --format is %s: make them agree, or leave --format out", file, meant, given)
	case given != "":
		return given, nil
	}
	return meant, nil
}

// answerWriter writes answers in a format. info describes the data that the
// model was trained on; classes says that answers are classes, and not numbers. JSON is broken between
// values, in lines of room characters, where it is shown on a terminal.
func answerWriter(format string, out io.Writer, info *datasets.Info, classes bool, room int) func(berth.Prediction) error {
	if format == formatCSV {
		return (&csvAnswers{w: csv.NewWriter(out), info: info, classes: classes}).write
	}
	if room < math.MaxInt {
		return func(p berth.Prediction) error {
			text, err := json.Marshal(p)
			if err == nil {
				_, err = io.WriteString(out, columns.Fold(spaced(text), room)+"\n")
			}
			return err
		}
	}
	enc := json.NewEncoder(out)
	return func(p berth.Prediction) error { return enc.Encode(p) }
}

// spaced is JSON with a space behind each comma that divides values, where a line may end.
func spaced(text []byte) string {
	var b strings.Builder
	quoted := false
	for i, c := range text {
		if b.WriteByte(c); c == '"' && (!quoted || !isEscaped(text[:i])) {
			quoted = !quoted
		} else if c == ',' && !quoted {
			b.WriteByte(' ')
		}
	}
	return b.String()
}

// isEscaped reports whether what follows a text of JSON is escaped: behind an odd number of backslashes.
func isEscaped(text []byte) bool {
	return (len(text)-len(bytes.TrimRight(text, `\`)))%2 == 1
}

// csvAnswers writes answers as CSV. The first answer brings the header.
type csvAnswers struct {
	w       *csv.Writer
	info    *datasets.Info
	classes bool // answers are classes, and not numbers
	begun   bool
}

func (c *csvAnswers) write(p berth.Prediction) error {
	if !c.begun {
		c.begun = true
		header := c.header(p)
		switch name := twice(header); {
		case name == "":
		case len(p.Row) == 0:
			return cli.Usagef("the answers would have two columns %q: write JSON lines with --format jsonl", name)
		default:
			return cli.Usagef("--with: the answers would have two columns %q: leave it out, or write JSON lines with --format jsonl", name)
		}
		if err := c.w.Write(header); err != nil {
			return err
		}
	}
	row := []string{strconv.Itoa(p.Index)}
	for _, x := range p.Row {
		row = append(row, x.Text)
	}
	switch {
	case p.Class != nil:
		row = append(row, strconv.Itoa(*p.Class), p.Label)
	case c.classes:
		row = append(row, "", "")
	}
	for _, v := range p.Values {
		row = append(row, strconv.FormatFloat(float64(v), 'g', -1, 32))
	}
	if err := c.w.Write(row); err != nil {
		return err
	}
	c.w.Flush()
	return c.w.Error()
}

// header names the columns. Classification has one for each class's
// probability, regression one for each number, called after the label that it is: predicted_NAME
// where a column of the table has that name.
func (c *csvAnswers) header(p berth.Prediction) []string {
	h := []string{"index"}
	for _, x := range p.Row {
		h = append(h, x.Name)
	}
	if c.classes {
		h = append(h, "class", "label")
	}
	for i := range p.Values {
		name := fmt.Sprintf("value%d", i)
		switch labels := c.labels(p); {
		case c.classes:
			name = "prob_" + c.className(i)
		case i < len(labels) && slices.Contains(h, labels[i]):
			name = "predicted_" + labels[i]
		case i < len(labels):
			name = labels[i]
		}
		h = append(h, name)
	}
	return h
}

// labels are the names of the numbers of an answer; nil where they have none.
func (c *csvAnswers) labels(p berth.Prediction) []string {
	if p.Names == nil && len(c.info.Labels) == len(p.Values) {
		return c.info.Labels
	}
	return p.Names
}

// twice is the first of some names that comes again; "" if none does.
func twice(names []string) string {
	for i, name := range names {
		if slices.Contains(names[:i], name) {
			return name
		}
	}
	return ""
}

// className is a class's name, or its number where it has none: a model may
// have room for more classes than the data has.
func (c *csvAnswers) className(class int) string {
	return cmp.Or(c.info.ClassName(class), strconv.Itoa(class))
}
