package command

import (
	"bytes"
	"encoding/json"
	"errors"
	"math"
	"strings"
	"testing"

	"github.com/berth-ml/berth"
	"github.com/berth-ml/berth/datasets"
)

func TestAnswerFormat(t *testing.T) {
	for _, c := range []struct{ given, file, want string }{
		{"", "", "jsonl"}, {"csv", "", "csv"}, {"", "ans.csv", "csv"}, {"", "a.b/ANS.CSV", "csv"},
		{"", "ans.jsonl", "jsonl"}, {"", "ans.json", "jsonl"}, {"", "runs.d/answers", "jsonl"}, {"csv", "answers", "csv"},
		{"", "/dev/stdout", "jsonl"}, {"csv", "ans.txt", "csv"}, {"csv", "ans.csv", "csv"},
		{"", "ans.txt", ""}, {"", "ans.csv.gz", ""}, {"jsonl", "ans.csv", ""}, {"csv", "ans.json", ""}, {"xml", "ans.csv", ""},
	} {
		got, err := answerFormat(c.given, c.file)
		if got != c.want || (err != nil) != (c.want == "") {
			t.Errorf("--format %q --out %q: %q, %v, want %q", c.given, c.file, got, err, c.want)
		}
	}
}

// In CSV, an answer without a class has the columns of the others.
func TestAnswerWithoutAClassInCSV(t *testing.T) {
	var out strings.Builder
	write := answerWriter(formatCSV, &out, &datasets.Info{ClassNames: []string{"a", "b"}}, true, math.MaxInt)
	nan, class := float32(math.NaN()), 1
	for i, p := range []berth.Prediction{{Values: []float32{nan, nan}}, {Class: &class, Label: "b", Values: []float32{0.25, 0.75}}} {
		p.Index = i
		if err := write(p); err != nil {
			t.Fatal(err)
		}
	}
	if want := "index,class,label,prob_a,prob_b\n0,,,NaN,NaN\n1,1,b,0.25,0.75\n"; out.String() != want {
		t.Errorf("got %q, want %q", out.String(), want)
	}
}

// Columns of a table stand in front of each answer in CSV. A name that the answer has, too, is refused.
func TestColumnsBesideAnswersInCSV(t *testing.T) {
	class := 1
	for name, want := range map[string]string{
		"id":    "index,id,class,label,prob_a,prob_b\n0,\"x,1\",1,b,0.25,0.75\n",
		"label": "",
	} {
		var out strings.Builder
		write := answerWriter(formatCSV, &out, &datasets.Info{ClassNames: []string{"a", "b"}}, true, math.MaxInt)
		err := write(berth.Prediction{Row: []berth.Named{{Name: name, Text: "x,1"}}, Class: &class, Label: "b", Values: []float32{0.25, 0.75}})
		if out.String() != want || (err == nil) != (want != "") || err != nil && !strings.Contains(err.Error(), `two columns "label"`) {
			t.Errorf("%s: %q, %v, want %q", name, out.String(), err, want)
		}
	}
}

// On a terminal, JSON lines are broken between values, and say the same.
func TestAnswersOnTerminal(t *testing.T) {
	p := berth.Prediction{Index: 7, Label: `a,"b\\`, Values: []float32{0.125, 0.25, 0.0625, 0.5, 0.03125, 0.015625, 1e-9}}
	var out, narrow bytes.Buffer
	if err := errors.Join(answerWriter(formatLines, &out, &datasets.Info{}, true, math.MaxInt)(p), answerWriter(formatLines, &narrow, &datasets.Info{}, true, 40)(p)); err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(narrow.String()) {
		if len(line) > 41 {
			t.Errorf("%d characters: %s", len(line), line)
		}
	}
	var same bytes.Buffer
	if err := json.Compact(&same, narrow.Bytes()); err != nil || same.String()+"\n" != out.String() || strings.Count(narrow.String(), "\n") < 3 {
		t.Errorf("%v: %s, want %s", err, narrow.String(), out.String())
	}
}
