package main

import (
	"encoding/csv"
	"encoding/json"
	"fmt"
	"io"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/berth-ml/berth"
	"github.com/berth-ml/berth/cmd/trainer/internal/cli"
	"github.com/berth-ml/berth/datasets"
)

// The formats of answers.
const (
	formatLines = "jsonl"
	formatCSV   = "csv"
)

// suffixes are the endings of files that say their format.
var suffixes = map[string]string{".jsonl": formatLines, ".json": formatLines, ".csv": formatCSV, "": formatLines}

// answerFormat is the format to write answers in: the given one, or else what
// the file's suffix says.
func answerFormat(given, file string) (string, error) {
	suffix := strings.ToLower(filepath.Ext(file))
	says, known := suffixes[suffix]
	switch {
	case given != "" && given != formatLines && given != formatCSV:
		return "", cli.Usagef("--format %s: expected jsonl or csv", given)
	case given == "" && !known:
		return "", cli.Usagef("--out %s: %s is not the suffix of a format: name the file .csv or .jsonl, or give --format csv or jsonl", file, suffix)
	case given != "" && known && suffix != "" && says != given:
		return "", cli.Usagef("--out %s: the suffix says %s, --format says %s: make them agree, or leave --format out", file, says, given)
	case given != "":
		return given, nil
	}
	return says, nil
}

// answerWriter writes answers in a format. info is of the data that the model
// was trained on.
func answerWriter(format string, out io.Writer, info *datasets.Info) func(berth.Prediction) error {
	if format == formatCSV {
		return (&csvAnswers{w: csv.NewWriter(out), info: info}).write
	}
	enc := json.NewEncoder(out)
	return func(p berth.Prediction) error { return enc.Encode(p) }
}

// csvAnswers writes answers as CSV, the header with the first.
type csvAnswers struct {
	w     *csv.Writer
	info  *datasets.Info
	begun bool
}

func (c *csvAnswers) write(p berth.Prediction) error {
	if !c.begun {
		c.begun = true
		if err := c.w.Write(c.header(p)); err != nil {
			return err
		}
	}
	row := []string{strconv.Itoa(p.Index)}
	if p.Class != nil {
		row = append(row, strconv.Itoa(*p.Class), p.Label)
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

// header names the columns: of classification one for each class's
// probability, of regression one for each number.
func (c *csvAnswers) header(p berth.Prediction) []string {
	h := []string{"index"}
	if p.Class != nil {
		h = append(h, "class", "label")
	}
	for i := range p.Values {
		if p.Class != nil {
			h = append(h, "prob_"+c.className(i))
		} else {
			h = append(h, fmt.Sprintf("value%d", i))
		}
	}
	return h
}

// className is a class's name, or its number where it has none: a model may
// have room for more classes than the data has.
func (c *csvAnswers) className(class int) string {
	switch {
	case c.info.Vocab != nil && class < c.info.Vocab.Len():
		return c.info.Vocab.Decode([]int32{int32(class)})
	case c.info.Vocab == nil && class < len(c.info.ClassNames):
		return c.info.ClassNames[class]
	}
	return strconv.Itoa(class)
}
