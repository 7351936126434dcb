package configs

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/berth-ml/berth/internal/golden"
)

const small = "data: {source: digits}\nmodel: {preset: mlp}\ntrain: {batch: 2}\ndevices: {threads: 2}\n"

func parse(t *testing.T, text string, o Overlay) *Config {
	t.Helper()
	c, err := Parse("small.yaml", []byte(text), o)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// TestPrecedence: flag over set over environment over file over default.
func TestPrecedence(t *testing.T) {
	flag, set, env := map[string]string{"threads": "5"}, []string{"devices.threads=4"}, []string{"BERTH_DEVICES_THREADS=3"}
	without := "data: {source: digits}\nmodel: {preset: mlp}\n"
	cases := []struct {
		text string
		over Overlay
		want int
	}{
		{small, Overlay{flag, set, env}, 5},
		{small, Overlay{nil, set, env}, 4},
		{small, Overlay{nil, nil, env}, 3},
		{small, Overlay{}, 2},
		{without, Overlay{}, 0},
		{without, Overlay{nil, nil, env}, 3},
		{without, Overlay{flag, nil, env}, 5},
		{small, Overlay{nil, []string{"devices.threads=8", "devices.threads=9"}, nil}, 9},
	}
	for i, c := range cases {
		if got := parse(t, c.text, c.over).Devices.Threads; got != c.want {
			t.Errorf("case %d: %d threads, want %d", i, got, c.want)
		}
	}
}

func TestOverlayValues(t *testing.T) {
	c := parse(t, small+"optimizer: sgd\n", Overlay{
		Flags: map[string]string{"devices": "cpu:3"},
		Set: []string{"model.hidden=[64, 32]", "optimizer.freeze=[\"layers.*\"]", "train.shuffle=false", "name=17",
			"optimizer=adam", "checkpoint.keep.last=7", "partition.stages=[[a], [b, c]]"},
		Env: []string{"BERTH_OPTIMIZER_LR=1e-2", "BERTH_SCHEDULE=cosine", "BERTH_OPTIMIZER=momentum", "HOME=/", "BERTH_DEBUG=3", "BERTH_CPU=avx2", "BERTH_BLAS=", "BERTH_KILLS=1"},
	})
	for _, x := range []struct{ got, want any }{
		{c.Devices.Use, "cpu:3"}, {c.Devices.Threads, 2}, {c.Model.Hidden, []int{64, 32}}, {c.Optimizer.Freeze, []string{"layers.*"}},
		{c.Train.Shuffle, false}, {c.Train.Batch, 2}, {c.Name, "17"}, {c.Optimizer.Name, "adam"}, {c.Optimizer.LR, 0.01},
		{c.Schedule.Name, "cosine"}, {c.Checkpoint.Keep.Last, 7}, {c.Partition.Stages.Blocks, [][]string{{"a"}, {"b", "c"}}},
	} {
		if !reflect.DeepEqual(x.got, x.want) {
			t.Errorf("got %v, want %v", x.got, x.want)
		}
	}
	roundTrip(t, c)
}

// TestOverlayOnShorthand: `devices: cpu:2` keeps its kind when a flag adds a key.
func TestOverlayOnShorthand(t *testing.T) {
	c := parse(t, "data: {source: digits}\nmodel: {preset: mlp}\ndevices: cpu:2\ntrain:\n",
		Overlay{Flags: map[string]string{"threads": "4"}, Set: []string{"train.epochs=3"}})
	if c.Devices.Use != "cpu:2" || c.Devices.Threads != 4 || c.Train.Epochs != 3 || c.Devices.Pos.Line != 3 {
		t.Errorf("got %+v, %+v", c.Devices, c.Train)
	}
}

// TestOverlayOfVariant: another variant from outside does away with the keys of the file's,
// which a saved config has all; those that are given with it stay.
func TestOverlayOfVariant(t *testing.T) {
	saved := small + "schedule: {name: cosine, warmup: 3, min_lr: 0.001}\noptimizer: {name: adamw, betas: [0.8, 0.9]}\n"
	for _, c := range []struct {
		over Overlay
		want string // of the schedule and optimizer; "" for an error
	}{
		{Overlay{}, "cosine 3 adamw"},
		{Overlay{Flags: map[string]string{"schedule": "constant"}}, "constant 3 adamw"},
		{Overlay{Set: []string{"schedule.name=step", "schedule.every=5"}}, "step 3 adamw"},
		{Overlay{Set: []string{"schedule=linear", "schedule.min_lr=0.0002"}}, "linear 3 adamw"},
		{Overlay{Env: []string{"BERTH_OPTIMIZER_NAME=sgd"}}, "cosine 3 sgd"},
		{Overlay{Set: []string{"schedule=constant", "schedule.min_lr=0.002"}}, ""},
		{Overlay{Set: []string{"schedule=cosin"}}, ""},
	} {
		x, err := Parse("saved.yaml", []byte(saved), c.over)
		if err != nil {
			if c.want != "" {
				t.Errorf("%+v: %v", c.over, err)
			}
			continue
		}
		if got := fmt.Sprint(x.Schedule.Name, x.Schedule.Warmup, x.Optimizer.Name); strings.ReplaceAll(c.want, " ", "") != strings.ReplaceAll(got, " ", "") {
			t.Errorf("%+v: %s, want %s", c.over, got, c.want)
		}
	}
}

// TestUnsetSection: a section without a value is taken back, before other keys are set.
func TestUnsetSection(t *testing.T) {
	text := small + "early_stopping: {patience: 7, min_delta: 0.5}\n"
	for set, want := range map[string]string{"": "7 0.5", "early_stopping=": "0 0", "early_stopping= early_stopping.patience=3": "3 0", "early_stopping.patience=3 early_stopping=": "3 0"} {
		c := parse(t, text, Overlay{Set: strings.Fields(set)})
		if got := fmt.Sprint(c.EarlyStopping.Patience, c.EarlyStopping.MinDelta); got != want {
			t.Errorf("--set %s: %s, want %s", set, got, want)
		}
	}
	if _, err := Parse("x.yaml", []byte(text), Overlay{Set: []string{"early_stoping="}}); err == nil {
		t.Error("a section that there is not was taken back")
	}
}

func TestFlags(t *testing.T) {
	var got []string
	for _, f := range Flags() {
		got = append(got, f.Name+" "+f.Key)
		if f.Usage == "" {
			t.Errorf("%s has no usage", f.Name)
		}
	}
	if want := []string{"compile devices.compile", "device-memory devices.memory", "devices devices.use", "epochs train.epochs", "host-memory devices.host_memory", "metrics train.metrics", "op-by-op devices.op_by_op", "schedule schedule.name", "share-device devices.share_device", "spill-dir devices.spill_dir", "threads devices.threads", "watch train.watch"}; !reflect.DeepEqual(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

func TestOverlayMessages(t *testing.T) {
	cases := []struct {
		name string
		over Overlay
	}{
		{"set", Overlay{Set: []string{"train.batch=abc", "train.bacth=3", "train=3", "train.epochs", "zebra=1", "optimizer.betas=[0.9", "train.log_every=", "lr=0.1", "every=5"}}},
		{"no value", Overlay{Set: []string{"train.epochs=null"}}},
		{"shorthand", Overlay{Set: []string{"partition=best"}}},
		{"env", Overlay{Env: []string{"BERTH_SEED=-1", "BERTH_TRIAN_BATCH=3", "BERTH_TRAIN_SIZE=3", "BERTH_DEBUG=2", "BERTH_DUMP=x", "BERTH_FOO=1", "BERTH_DEBGU=1", "BERTH_BLAS=openblas", "BERTH_DEVICES_OP_BY_OP_LOG=x", "BERTH_DEVICES_OP_BY_OP_LOG=", "BERTH_CPU=avx2", "PATH=/bin"}}},
		{"flags", Overlay{Flags: map[string]string{"devices": "GPU", "threads": "-1", "thread": "2"}}},
		{"variant", Overlay{Set: []string{"data.source=csv", "model.heads=4"}}},
		{"layers", Overlay{Set: []string{"model.layers=[reelu, {units: 3}, {type: dense}]"}}},
		{"rule", Overlay{Set: []string{"train.microbatches=7"}}},
	}
	var out strings.Builder
	for _, c := range cases {
		from := "digits"
		if c.name == "layers" {
			from = "digits-cnn"
		}
		_, err := Load(from, c.over)
		if !errors.Is(err, ErrInvalid) {
			t.Errorf("%s: got %v", c.name, err)
		}
		fmt.Fprintf(&out, "-- %s --\n%v\n", c.name, err)
	}
	golden.Check(t, filepath.Join("testdata", "overlay.golden"), withoutLists(out.String(), 0))
}

// TestVariablesAreUnambiguous: no two keys share an environment variable.
func TestVariablesAreUnambiguous(t *testing.T) {
	owner := map[string]string{}
	for path, l := range rootSection.leaves("", map[string]leaf{}) {
		if other, ok := owner[variable(path)]; ok && other != l.path {
			t.Errorf("%s is the variable of %s and %s", variable(path), other, l.path)
		}
		owner[variable(path)] = l.path
	}
}

// A key of a loss is told how it is set from outside.
func TestKeysOfALossFromOutside(t *testing.T) {
	for pair, advice := range map[string]string{
		"loss.delta=1":                   "; the loss is set as a whole: --set 'loss={name: NAME, delta: 1}'",
		"loss.name=focal":                "; the loss is set as a whole: --set 'loss={name: focal}'",
		"optimizer.lrr=1":                `; did you mean "optimizer.lr"?`,
		"schedule.decay=0.2":             `; did you mean "schedule.decay_ratio"?`,
		"partition.pin.b.matmul=cpu:1":   `; partition.pin is set as a whole, with all that it is to have: --set 'partition.pin={b.matmul: "cpu:1"}'`,
		"data.columns.plan=category":     "; data.columns is set as a whole, with all that it is to have: --set 'data.columns={plan: category}'",
		"train.batch: 7":                 ": expected key=value, such as train.batch=7",
		"checkpoint.best=val_f1_class_N": `; name a class or label by its number, from 0, as eval prints it, such as "val_f1_class_0"`,
		"checkpoint.best=val_f1_yes":     `such as val_f1; the metrics are accuracy, `,
		"train.metrics=f1_class_yes":     `such as [f1, auc]; name a class or label by its number, from 0, as eval prints it, such as "f1_class_0"`,
		"train batch":                    ": expected key=value, such as train.batch=64",
		"data.split.fold=2":              "; data.split is set as a whole, with all that it is to have: --set 'data.split={fold: 2}'",
		"data.columns.plan.missing=mean": "; data.columns is set as a whole, with all that it is to have: --set 'data.columns={plan: {missing: mean}}'",
	} {
		if _, err := Parse("small.yaml", []byte(small), Overlay{Set: []string{pair}}); err == nil || !strings.Contains(err.Error(), advice) {
			t.Errorf("%s: %v", pair, err)
		}
	}
}

// A key that is set as a whole keeps in the hint what the file has.
func TestHintsKeepTheWhole(t *testing.T) {
	for value, want := range map[string]map[string]string{
		"split: {folds: 5} # of five":                  {"data.split.fold=2": "--set 'data.split={folds: 5, fold: 2}'", "data.split.folds=3": "--set 'data.split={folds: 3}'"},
		"split: {val: 0.15, test: 0.1}":                {"data.split.test=0.2": "--set 'data.split={val: 0.15, test: 0.2}'"},
		"split: 0.8":                                   {"data.split.test=0.2": "--set 'data.split={test: 0.2}'"},
		"columns: {'*': number, a: {top: 3}, b: date}": {"data.columns.a.missing=frequent": "--set 'data.columns={\"*\": number, a: {top: 3, missing: frequent}, b: date}'"},
	} {
		text := strings.Replace(small, "{source: digits}", "\n  source: csv\n  path: a.csv\n  "+value, 1)
		for pair, advice := range want {
			if _, err := Parse("small.yaml", []byte(text), Overlay{Set: []string{pair}}); err == nil || !strings.HasSuffix(err.Error(), ": "+advice) {
				t.Errorf("%s: %s: %v", value, pair, err)
			}
		}
		path := filepath.Join(t.TempDir(), "small.yaml")
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		_, err := SweepOfFlags(path, []string{"data.split.fold=1,2"}, nil)
		if folds := "--vary 'data.split={folds: 5, fold: 1},{folds: 5, fold: 2}'"; err == nil || strings.HasSuffix(err.Error(), folds) != strings.Contains(value, "folds") {
			t.Errorf("%s: %v", value, err)
		}
	}
}

// Hints about columns that are followed one by one do not take each other back, unseen.
func TestColumnsGivenTwice(t *testing.T) {
	table := strings.Replace(small, "{source: digits}", "{source: csv, path: a.csv}", 1)
	_, err := Parse("small.yaml", []byte(table), Overlay{Set: []string{"data.columns={a: category}", "data.columns={b: ignore}"}})
	if err == nil || !strings.Contains(err.Error(), "--set data.columns={b: ignore}: data.columns is given twice, and the last would take the place of the first; name all columns in one") {
		t.Error(err)
	}
	if c, err := Parse("small.yaml", []byte(table), Overlay{Set: []string{"train.batch=3", "train.batch=4"}}); err != nil || c.Train.Batch != 4 {
		t.Error(c, err)
	}
}

// A key that a file names as --set does is told where it belongs.
func TestKeysWithDotsInAFile(t *testing.T) {
	const advice = "write batch in the section train: names are joined by dots only outside files"
	for _, text := range []string{small + "train.batch: 7\n", strings.Replace(small, "batch: 2", "train.batch: 2", 1)} {
		if _, err := Parse("small.yaml", []byte(text), Overlay{}); err == nil || !strings.Contains(err.Error(), "train.batch: unknown key; "+advice) {
			t.Errorf("%s: %v", text, err)
		}
	}
}

// Metrics whose numbers no line of metrics.jsonl has room for are refused.
func TestMetricsAreBounded(t *testing.T) {
	var names []string
	for i := range 1000 {
		names = append(names, fmt.Sprintf("precision_class_%d", i))
	}
	for n, want := range map[int]string{700: "", 1000: "small.yaml:3: train.metrics: got 1000 names, more than a line of metrics.jsonl has room for; name at most 804"} {
		text := strings.Replace(small, "batch: 2", "batch: 2, metrics: ["+strings.Join(names[:n], ", ")+"]", 1)
		_, err := Parse("small.yaml", []byte(text), Overlay{})
		if want == "" && err != nil || want != "" && (err == nil || err.Error() != want) {
			t.Errorf("%d names: %v", n, err)
		}
	}
}
