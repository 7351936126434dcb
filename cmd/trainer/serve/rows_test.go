package serve_test

import (
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/berth-ml/berth"
	"github.com/berth-ml/berth/cmd/trainer/serve"
)

// people is a run on a table with words, dates and missing values.
func people(t testing.TB) run {
	rows := "age,plan,since,paid,kind\n" + strings.Repeat("30,gold,2024-01-05,yes,cat\n,free,2024-03-01,no,dog\n51,gold,2023-12-31 17:00,yes,cow\n", 8)
	return trained(t, rows, "data: {source: csv, path: FILE, label: kind, header: true}\nmodel: {preset: mlp, hidden: [4]}\ntrain: {epochs: 2, batch: 8}\n")
}

// Rows of a table have their values by name, in any order, or as a list. Answers are those of
// a file, and of rows in Go.
func TestRows(t *testing.T) {
	x := people(t)
	_, c := open(t, x, serve.OpenOptions{})
	var got predictions
	c.post(t, "/predict", `{"inputs": [{"plan": "gold", "age": 41, "since": "2024-02-01", "paid": true, "else": {"a": [1]}},
		[41.0, "gold", "2024-02-01 00:30", "YES"], {"plan": "unheard", "age": null, "since": "2024-02-01", "paid": "no"}, ["NA", "unheard", "2024-02-01", false]]}`, &got)
	model, err := berth.OpenTrained(t.Context(), x.config, berth.Weights{Dir: x.dir}, berth.TrainedOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer model.Close()
	var want []berth.Prediction
	rows := []map[string]any{{"plan": "gold", "age": 41, "since": "2024-02-01", "paid": true}, {"plan": "unheard", "since": "2024-02-01", "paid": false}}
	if _, err := model.PredictRows(t.Context(), rows, func(p berth.Prediction) error {
		want = append(want, p)
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	for i, p := range got.Predictions {
		if !slices.Equal(p.Values, want[i/2].Values) {
			t.Errorf("row %d: %v, want %v", i, p.Values, want[i/2].Values)
		}
	}
	if len(got.Predictions) != 4 {
		t.Errorf("%d answers", len(got.Predictions))
	}
	code, text, _ := c.do(t.Context(), http.MethodGet, "/", "")
	if code != http.StatusOK || !strings.Contains(text, "null is a missing value, and others do not count:\n    age: number; may be missing\n    plan: category: gold, free\n    since: date (ymd)\n    paid: boolean") {
		t.Errorf("%d %s", code, text)
	}
}

// What a row lacks or has wrong is said with its column.
func TestRefusedRows(t *testing.T) {
	_, c := open(t, people(t), serve.OpenOptions{})
	for _, x := range []struct{ input, where, says string }{
		{`{"Age": 7, "plan": "gold", "since": "2024-02-01", "paid": true}`, "inputs[0]", `"Age" is no column, and the row lacks "age": did you mean that?`},
		{`{"plan": "gold", "sinse": "2024-02-01", "paid": true}`, "inputs[0]", `"sinse" is no column, and the row lacks "since"`},
		{`{"plan": "gold", "paid": true}`, "inputs[0]", `"since" is missing: send each of plan, since, paid`},
		{`{"plan": null, "since": "2024-02-01", "paid": true}`, "inputs[0].plan", `this is null: send a category`},
		{`{"plan": null, "since": "soon", "paid": 7}`, "inputs[0].plan", `this is null: send a category; "since": "soon" is not a date`},
		{`{"plan": null, "since": "soon", "paid": 7}`, "inputs[0].plan", `; "paid": "7" is neither yes nor no`},
		{`{"paid": 7}`, "inputs[0]", `"plan", "since" are missing: send each of plan, since, paid; "paid": "7" is neither yes nor no`},
		{`{"plan": " ", "since": "2024-02-01", "paid": true}`, "inputs[0].plan", "the value is missing, and no row that the model was trained on lacks it: send one"},
		{`{"plan": " ", "since": "2024-02-01", "paid": true}`, "inputs[0].plan", "the value is missing"},
		{`{"age": "old", "plan": "gold", "since": "2024-02-01", "paid": true}`, "inputs[0].age", `"old" is not a number`},
		{`{"age": 1e300, "plan": "gold", "since": "2024-02-01", "paid": true}`, "inputs[0].age", "beyond the range of float32"},
		{`{"plan": "gold", "since": "soon", "paid": true}`, "inputs[0].since", `"soon" is not a date`},
		{`{"plan": "gold", "since": "2024-02-01", "paid": 7}`, "inputs[0].paid", "neither yes nor no"},
		{`{"plan": ["gold"], "since": "2024-02-01", "paid": true}`, "inputs[0].plan", "this is a list: send a text, a number, true, false or null"},
		{`{"paid": true, "paid": true}`, "inputs[0]", "given twice"},
		{`[1, "gold"]`, "inputs[0]", "the list has 2 of its 4 elements"},
		{`[1, "gold", "2024-02-01", true, 5]`, "inputs[0][4]", "the list is too long"},
		{`[]`, "inputs[0]", "it is empty: send an object with the columns age, plan, since, paid, or a list of their values in this order"},
		{`7`, "inputs[0]", "this is a number: send an object or a list"},
	} {
		code, text, _ := c.do(t.Context(), http.MethodPost, "/predict", `{"inputs": [`+x.input+`]}`)
		var got struct {
			Error struct{ Where, Message string }
		}
		if err := json.Unmarshal([]byte(text), &got); err != nil || code != http.StatusBadRequest || got.Error.Where != x.where || !strings.Contains(got.Error.Message, x.says) {
			t.Errorf("%s: %d %s, want %s: %s", x.input, code, text, x.where, x.says)
		}
	}
}

// A boolean or a number in JSON is the word of the category that has its value, as in files.
func TestSpeltRows(t *testing.T) {
	text := "flag,size,kind\n" + strings.Repeat("True,1.0,cat\nFalse,XL,dog\nUnknown,2.50,cow\nFalse,S,cow\n", 8)
	x := trained(t, text, "data: {source: csv, path: FILE, label: kind, header: true}\nmodel: {preset: mlp, hidden: [4]}\ntrain: {epochs: 2, batch: 8}\n")
	_, c := open(t, x, serve.OpenOptions{})
	var got predictions
	c.post(t, "/predict", `{"inputs": [{"flag": "True", "size": "2.50"}, {"flag": true, "size": 2.5}, [true, 25e-1], {"flag": "true", "size": "2.5"}]}`, &got)
	p := got.Predictions
	if len(p) != 4 || !slices.Equal(p[1].Values, p[0].Values) || !slices.Equal(p[2].Values, p[0].Values) || slices.Equal(p[3].Values, p[0].Values) {
		t.Errorf("%v", p)
	}
	model, err := berth.OpenTrained(t.Context(), x.config, berth.Weights{Dir: x.dir}, berth.TrainedOptions{With: []string{"flag"}})
	if err != nil {
		t.Fatal(err)
	}
	defer model.Close()
	for name, text := range map[string]string{"x.csv": "flag,size\ntrue,2.5\n", "x.jsonl": `{"size": 25e-1, "flag": true}`} {
		path := filepath.Join(t.TempDir(), name)
		if err := os.WriteFile(path, []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
		if _, err := model.Predict(t.Context(), path, func(a berth.Prediction) error {
			if !slices.Equal(a.Values, p[0].Values) || !slices.Equal(a.Row, []berth.Named{{Name: "flag", Text: "true"}}) {
				t.Errorf("%s: %v, want %v", name, a, p[0])
			}
			return nil
		}); err != nil {
			t.Error(err)
		}
	}
}
