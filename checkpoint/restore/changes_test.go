package restore

import (
	"errors"
	"maps"
	"strings"
	"testing"

	"github.com/berth-ml/berth/checkpoint"
	"github.com/berth-ml/berth/checkpoint/initial"
	"github.com/berth-ml/berth/checkpoint/runstate"
	"github.com/berth-ml/berth/configs"
	"github.com/berth-ml/berth/engine/graph"
	_ "github.com/berth-ml/berth/engine/ops"
	_ "github.com/berth-ml/berth/engine/optim"
)

// runOf is a run of a config whose data and kernels are called that.
func runOf(t *testing.T, lr, data, kernels string) *Run {
	t.Helper()
	text := "data: digits\nmodel: {preset: mlp}\noptimizer: {lr: " + lr + "}\n"
	c, err := configs.Parse("a.yaml", []byte(text), configs.Overlay{})
	if err != nil {
		t.Fatal(err)
	}
	return &Run{Model: Model{Config: c, Data: data}, Numerics: kernels, Graph: &graph.Graph{}}
}

// manifestOf is a checkpoint of the run.
func manifestOf(t *testing.T, r *Run) *checkpoint.Manifest {
	t.Helper()
	prints, err := r.Fingerprints()
	if err != nil {
		t.Fatal(err)
	}
	text, err := r.Config.Kept()
	if err != nil {
		t.Fatal(err)
	}
	return &checkpoint.Manifest{ID: 7, Fingerprints: prints, Config: text}
}

// A resumed run names each change since its checkpoint; a trained model minds only those that
// its answers depend on.
func TestWhatChanged(t *testing.T) {
	m := manifestOf(t, runOf(t, "0.1", "d1", "cpu avx2"))
	own := runOf(t, "0.1", "d1", "cpu avx2")
	own.Own = "f2"
	lost := runOf(t, "0.1", "d1", "cpu generic")
	lost.LostDevices = true
	for _, c := range []struct {
		name    string
		now     *Run
		changed string
		suits   string
	}{
		{"nothing", runOf(t, "0.1", "d1", "cpu avx2"), "", ""},
		{"the rate", runOf(t, "0.2", "d1", "cpu avx2"), "optimizer.lr was 0.1, is 0.2", ""},
		{"the data", runOf(t, "0.1", "d2", "cpu avx2"), "the data is not what checkpoint 7 was trained on", "the data is not what checkpoint 7 was trained on"},
		{"the kernels", runOf(t, "0.1", "d1", "cpu generic"), "checkpoint 7 was computed with cpu avx2, and the devices now compute with cpu generic: the weights would differ in their last bits from", ""},
		{"what rounds", runOf(t, "0.1", "d1", "cpu avx2, rounding in conv2d"), "and the devices now compute with cpu avx2, rounding in conv2d: the weights would differ from", ""},
		{"the kernels, of the devices that are left", lost, "", ""},
		{"the model of the program", own, "the model that the program gives is not the one of checkpoint 7", "the model that the program gives is not the one of checkpoint 7"},
	} {
		got, err := c.now.changed(m)
		if err != nil || !strings.Contains(got, c.changed) || (got == "") != (c.changed == "") {
			t.Errorf("%s: changed %q, %v", c.name, got, err)
		}
		err = c.now.Suits(m)
		if (err == nil) != (c.suits == "") || err != nil && (!errors.Is(err, initial.ErrChanged) || !strings.Contains(err.Error(), c.suits)) {
			t.Errorf("%s: suits %v", c.name, err)
		}
	}
}

// An imported model goes on with any data and any way to train.
func TestImportedModels(t *testing.T) {
	r := runOf(t, "0.1", "d1", "cpu avx2")
	m := manifestOf(t, r)
	prints, err := ImportedPrints(r.Config)
	if err != nil {
		t.Fatal(err)
	}
	m.Fingerprints = maps.Clone(prints)
	now := runOf(t, "0.3", "d2", "cpu generic")
	if got, err := now.changed(m); got != "" || err != nil || !Untrained(m) || now.Suits(m) != nil {
		t.Errorf("changed %q, %v", got, err)
	}
}

// tableOf is a run of a table whose columns are used so.
func tableOf(t *testing.T, keys, data string) *Run {
	t.Helper()
	text := "data: {source: csv, path: a.csv, " + keys + "}\nmodel: {preset: mlp}\n"
	c, err := configs.Parse("a.yaml", []byte(text), configs.Overlay{})
	if err != nil {
		t.Fatal(err)
	}
	return &Run{Model: Model{Config: c, Data: data}, Graph: &graph.Graph{}}
}

// A change of how columns are used is named, and the data is other data for that.
func TestWhatChangedInColumns(t *testing.T) {
	m := manifestOf(t, tableOf(t, `columns: {"*": number, plan: {kind: category, missing: frequent}, day: {kind: date, order: ymd}}`, "d1"))
	const data = "the data is not what checkpoint 7 was trained on"
	for keys, want := range map[string]string{
		`columns: {"*": number, plan: {kind: category, missing: frequent}, day: {kind: date, order: ymd}, n: category}`: "data.columns.n was number, is category; " + data,
		`columns: {"*": number, plan: {kind: category, top: 9}, day: ignore}`: "data.columns.plan was {kind: category, missing: frequent}, is {kind: category, top: 9}; " +
			"data.columns.day was {kind: date, order: ymd}, is ignore; " + data,
		`columns: {"*": number, plan: {kind: category, missing: frequent}, day: {kind: date, order: ymd}}, missing: [none]`:   "data.missing was not set, is [none]; " + data,
		`columns: {"*": number, plan: {kind: category, missing: frequent}, day: {kind: date, order: ymd}}, missing: ["5\r0"]`: `data.missing was not set, is ["5\r0"]; ` + data,
		`columns: {"*": number, plan: {kind: category, missing: frequent}, day: {kind: date, order: ymd}}`:                    data,
		`columns: {"*": ignore, plan: {kind: category, missing: frequent}, day: {kind: date, order: ymd}}`:                    "data.columns.* was number, is ignore; " + data,
	} {
		got, err := tableOf(t, keys, "d2").changed(m)
		if err != nil || !strings.HasPrefix(got, want) {
			t.Errorf("%s:\n%q, %v, want\n%q", keys, got, err, want)
		}
	}
}

// Other features are refused also where changes are allowed, since the weights do not fit them. What
// was left out may be left out for another reason.
func TestOtherFeaturesNeverResume(t *testing.T) {
	m := manifestOf(t, tableOf(t, `columns: {"*": number, note: text}`, "d1"))
	for keys, refused := range map[string]bool{
		`columns: {"*": number, note: text, n: category}`:    true,
		`columns: {"*": number, note: text}, missing: ["x"]`: true,
		`columns: {"*": number, note: identifier}`:           false,
		`columns: {"*": ignore, note: text}`:                 true,
	} {
		_, _, err := tableOf(t, keys, "d2").Resume(&checkpoint.Snapshot{Manifest: *m}, true, func(string) {})
		if got := err != nil && strings.Contains(err.Error(), "train anew"); got != refused {
			t.Errorf("%s: %v", keys, err)
		}
	}
}

// The positive class may change unless the best checkpoint, or early stopping, depends on it.
func TestPositiveClassOfTheBest(t *testing.T) {
	for keys, want := range map[string]string{
		"":                                    "",
		"checkpoint: {best: val_f1}":          "",
		"checkpoint: {best: val_f1_positive}": `data.positive was not set, is no, and checkpoint.best is val_f1_positive: its values so far are about the other class`,
		"early_stopping: {patience: 2, metric: val_average_precision}": `data.positive was not set, is no, and early_stopping.metric is val_average_precision: its values so far are about the other class`,
	} {
		of := func(positive string) *Run {
			text := "data: {source: csv, path: a.csv" + positive + "}\nmodel: {preset: mlp}\n" + keys + "\n"
			c, err := configs.Parse("a.yaml", []byte(text), configs.Overlay{})
			if err != nil {
				t.Fatal(err)
			}
			return &Run{Model: Model{Config: c, Data: "d1"}, Graph: &graph.Graph{}}
		}
		m := manifestOf(t, of(""))
		if got, err := of(", positive: no").changed(m); got != want || err != nil {
			t.Errorf("%s: %q, %v, want %q", keys, got, err, want)
		}
		m.Step, m.Extra = 5, []byte(`{"Progress": {"Best": {"Metric": "val_f1", "Value": 0.5, "Step": 3}, "Watched": {"Metric": "val_average_precision", "Bad": 1}}}`)
		var notes []string
		r := of(", positive: no")
		r.Batch, r.Samples, r.Pace = 1, 9, runstate.Pace{Epoch: 9, Epochs: 1, Batch: 1}
		at, _, err := r.Resume(&checkpoint.Snapshot{Manifest: *m}, true, func(text string) { notes = append(notes, text) })
		best, early := strings.Contains(keys, "best: val_f1_positive"), strings.Contains(keys, "early")
		if err != nil || (at.Best == checkpoint.Best{}) != best || (at.Watched.Bad == 0) != early || (len(notes) > 1) != (want != "") {
			t.Errorf("%s: allowed: %+v, %v, %q", keys, at, err, notes)
		}
		if got, err := of("").changed(m); got != "" || err != nil {
			t.Errorf("%s: %q, %v without a change", keys, got, err)
		}
	}
}
