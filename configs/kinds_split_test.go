package configs

import (
	"reflect"
	"strings"
	"testing"
)

// parseSplit parses a config with a split.
func parseSplit(source, split string) (*Config, error) {
	preset := "mlp"
	if strings.HasPrefix(source, "text") {
		preset = "gpt"
	}
	return Parse("c.yaml", []byte("data:\n  source: "+source+"\n  split: "+split+"\nmodel: {preset: "+preset+"}\n"), Overlay{})
}

// A number is kept as it is written; parts have what follows from the rest of the config.
func TestSplits(t *testing.T) {
	const table = "csv\n  path: t.csv"
	for _, c := range []struct {
		source, split string
		want          Division
		text          string
	}{
		{table, "0.75", Division{}, "split: 0.75\n"},
		{table, "{val: 0.1, test: 0.2}", Division{Val: 0.1, Test: 0.2, Stratify: true}, "split: {val: 0.1, test: 0.2, stratify: true}\n"},
		{table, "{test: 0.2, stratify: false}", Division{Test: 0.2}, "split: {val: 0, test: 0.2, stratify: false}\n"},
		{table + "\n  task: regression", "{val: 0.1}", Division{Val: 0.1}, "split: {val: 0.1, stratify: false}\n"},
		{table, "{val: 0.1, latest: day}", Division{Val: 0.1, Latest: "day"}, ""},
		{table, "{folds: 5, fold: 2, by: who}", Division{Folds: 5, Fold: 2, By: "who", Stratify: true}, "split: {stratify: true, by: who, folds: 5, fold: 2}\n"},
		{table, "{val: v.csv, test: 0.1}", Division{ValPath: "v.csv", Test: 0.1, Stratify: true}, ""},
		{"text\n  path: t.txt", "{val: 0.1, test: t2.txt}", Division{Val: 0.1, TestPath: "t2.txt"}, "split: {val: 0.1, test: t2.txt}\n"},
		{"digits", "{folds: 4, fold: 4}", Division{Folds: 4, Fold: 4, Stratify: true}, ""},
	} {
		cfg, err := parseSplit(c.source, c.split)
		if err != nil {
			t.Errorf("%s: %v", c.split, err)
			continue
		}
		if d := cfg.Data.Division; c.want != (Division{}) && (d == nil || *d != c.want || cfg.Data.Split != 0) {
			t.Errorf("%s: %+v, split %v", c.split, d, cfg.Data.Split)
		}
		text, err := cfg.YAML()
		if err != nil || !strings.Contains(string(text), c.text) {
			t.Errorf("%s: %v\n%s", c.split, err, text)
		}
		again, err := Parse("c.yaml", text, Overlay{})
		if err != nil || !reflect.DeepEqual(again.Data.Division, cfg.Data.Division) {
			t.Errorf("%s: read again: %v", c.split, err)
		}
	}
}

func TestSplitErrors(t *testing.T) {
	const table = "csv\n  path: t.csv"
	for _, c := range []struct{ source, split, want string }{
		{table, "{}", "data.split: got a mapping"},
		{table, "{vall: 0.1}", `c.yaml:4: data.split.vall: unknown key; did you mean "val"?`},
		{table, "{val: 1}", "c.yaml:4: data.split.val: got 1, expected a number of at least 0 and below 1, or the path of a file"},
		{table, "{val: 0.5, test: 0.5}", "c.yaml:4: data.split.test: val and test are all samples"},
		{table, "{val: 0}", "no part has samples"},
		{table, "{folds: 5}", "data.split.folds: fold is missing"},
		{table, "{folds: 5, fold: 6}", "data.split.fold: 6 is above folds, 5"},
		{table, "{fold: 2, val: 0.1}", "folds is missing"},
		{table, "{folds: 1, fold: 1}", "data.split.folds: got 1, expected a whole number from 2 to 1000"},
		{table, "{folds: 5, fold: 1, val: 0.1}", "leave val out"},
		{table, "{val: 0.1, latest: day, by: who}", "data.split.latest: it leaves no choice of samples to by"},
		{table, "{val: v.csv, by: who}", "by without effect"},
		{table + "\n  task: regression", "{val: 0.1, stratify: true}", "true needs classes"},
		{"digits", "{val: 0.1, by: who}", "data.split.by: unknown key"},
		{"digits", "{val: file}", `got "file", expected a number of at least 0 and below 1`},
		{"text\n  path: t.txt", "{folds: 5, fold: 1}", "data.split.folds: unknown key"},
	} {
		if _, err := parseSplit(c.source, c.split); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v\nwant %s", c.split, err, c.want)
		}
	}
	_, err := Parse("c.yaml", []byte("data: {source: digits, split: {test: 0.1}}\nmodel: {preset: mlp}\nearly_stopping: {patience: 2}\n"), Overlay{})
	if err == nil || !strings.Contains(err.Error(), "data.split.val: 0 leaves no samples for validation; raise it") {
		t.Errorf("early stopping without a validation part: %v", err)
	}
}
