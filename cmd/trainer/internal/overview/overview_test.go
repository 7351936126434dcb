package overview

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/berth-ml/berth/checkpoint"
	"github.com/berth-ml/berth/checkpoint/rundir"
	"github.com/berth-ml/berth/configs"
	"github.com/berth-ml/berth/jobs/queue"
)

// made is a run with long names and numbers.
func made(t *testing.T, i int) summarized {
	t.Helper()
	name := fmt.Sprintf("experiments/%s-%d", strings.Repeat("a-very-long-name-", 3), i)
	c, err := configs.Parse("test.yaml", fmt.Appendf(nil, "data: digits\nmodel: {preset: mlp, hidden: [%s8]}\ntrain: {batch: %d}\n", strings.Repeat("512, ", 20), 8+i), configs.Overlay{})
	if err != nil {
		t.Fatal(err)
	}
	return summarized{dir: name, Summary: &rundir.Summary{
		Condition: rundir.Unreadable, Config: c, Step: 123_456_789, Total: 999_999_999, Epoch: 12345, Measured: true, Bytes: 1023 << 30,
		Best: checkpoint.Best{Metric: "val_balanced_accuracy_of_all", Value: 0.123456}, BestID: 7, Problem: checkpoint.ErrDamaged,
		Last: rundir.Record{Step: 123, Values: map[string]float64{"val_loss": -1.23456e-20, "a_metric_with_a_rather_long_name_that_somebody_registered": 1e300}},
	}}
}

// Runs that differ in their folds alone have a mean, and others have none.
func TestCrossValidated(t *testing.T) {
	var list []summarized
	for _, v := range []float64{0.2, 0.3, 0.4} {
		list = append(list, summarized{dir: "r", Summary: &rundir.Summary{Best: checkpoint.Best{Metric: "val_loss", Value: v}}})
	}
	folds := Difference{Key: "data.split.fold"}
	for want, keys := range map[string][]Difference{
		"best val_loss of 3 folds: 0.3000 on average, with a deviation of 0.1000\n": {{Key: "name"}, folds, {Key: "data.columns.x"}},
		"": {folds, {Key: "optimizer.lr"}},
	} {
		if got := crossValidated(list, keys); got != want {
			t.Errorf("%v: %q, want %q", keys, got, want)
		}
	}
	for i := range list {
		list[i].BestValues = map[string]float64{"val_loss": 0.5, "val_auc": 0.7 + float64(i)/10, "val_recall": 0.7 + float64(i)/10, "train_loss": 0.1}
	}
	list[0].BestValues["val_f1"] = 0.4 // which others lack
	const want = "best val_loss of 3 folds: 0.3000 on average, with a deviation of 0.1000\n" +
		"val_auc there: 0.8000 on average, with a deviation of 0.1000\n" +
		"val_recall there: 80.00% on average, with a deviation of 10.00%\n"
	if got := crossValidated(list, []Difference{folds}); got != want {
		t.Errorf("of several metrics: %q, want %q", got, want)
	}
	list[1].Best.Metric = "val_f1"
	if got := crossValidated(list, []Difference{folds}); got != "" {
		t.Errorf("of two metrics: %q", got)
	}
}

// Shares are percentages, and times and sizes have their unit.
func TestValues(t *testing.T) {
	for name, x := range map[string]struct {
		v    float64
		want string
	}{
		"val_accuracy": {0.96388, "96.39%"}, "test_f1": {1, "100.00%"}, "val_loss": {0.96388, "0.9639"}, "device_peak_bytes": {3 << 20, "3.0 MiB"},
		"train_s": {0.0038, "3.80 ms"}, "samples_per_s": {374025.4, "374,025"}, "steps": {12, "12"}, "val_s": {math.NaN(), "NaN"},
	} {
		if got := value(name, x.v); got != x.want {
			t.Errorf("%s: %q, want %q", name, got, x.want)
		}
	}
	best := summarized{dir: "r", Summary: &rundir.Summary{Best: checkpoint.Best{Metric: "val_accuracy", Value: 0.96388}}}
	if got := best.best(); got != "val_accuracy 96.39%" {
		t.Error(got)
	}
}

// All that is printed fits, whatever the names and numbers.
func TestTablesFit(t *testing.T) {
	var list []summarized
	for i := range 9 {
		list = append(list, made(t, i))
	}
	keys, err := differences(list)
	if err != nil || len(keys) == 0 {
		t.Fatal(keys, err)
	}
	now := time.Now()
	for _, width := range []int{59, 79, 119} {
		var b strings.Builder
		if err := listTable(&b, list, now, width); err != nil {
			t.Fatal(err)
		}
		if best := strings.Contains(b.String(), "BEST"); best != (width > 79) {
			t.Errorf("%d columns: the best value is there: %v", width, best)
		}
		for name, text := range map[string]string{"ls": b.String(), "show": shown(list[0], now, width), "compare": compared(list, keys, width)} {
			for line := range strings.Lines(text) {
				if n := utf8.RuneCountInString(strings.TrimSuffix(line, "\n")); n > width && !(name == "show" && strings.Contains(line, list[0].dir)) { // the path is to be typed
					t.Errorf("%s: %d of %d characters: %s", name, n, width, line)
				}
			}
		}
	}
	if got := strings.Count(compared(list, keys, 80), "train.batch"); got != 9 {
		t.Errorf("9 runs, two beside each other: %d tables", got)
	}
}

// Keys that only some configs have stand where those configs have them.
func TestDifferences(t *testing.T) {
	var list []summarized
	for _, train := range []string{"{epochs: 3}", "{steps: 5}", "{epochs: 3}"} {
		c, err := configs.Parse("test.yaml", []byte("data: digits\nmodel: {preset: mlp, hidden: [8]}\ntrain: "+train+"\n"), configs.Overlay{})
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, summarized{dir: "x", Summary: &rundir.Summary{Config: c}})
	}
	keys, err := differences(list)
	if got, want := fmt.Sprint(keys), "[{train.steps [ 5 ]} {train.epochs [3  3]}]"; err != nil || got != want {
		t.Errorf("got %s, %v, want %s", got, err, want)
	}
}

// The runs of jobs that wait or are paused say so, also where their folder is named by a link, unless somebody trains a
// paused one beside the queue. Those that have not begun are listed, too, if they are in the folder.
func TestResting(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"new", "new-paused", "elsewhere/new"} {
		if err := os.MkdirAll(filepath.Join(dir, name), 0o777); err != nil {
			t.Fatal(err)
		}
	}
	var list []summarized
	var jobs []Resting
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(dir, link); err != nil {
		t.Skip(err)
	}
	for _, c := range []struct {
		name      string
		condition rundir.Condition
		state     queue.State
	}{
		{"suspended", rundir.Running, queue.Waiting}, {"again", rundir.Failed, queue.Waiting},
		{"paused", rundir.Stopped, queue.Paused}, {"killed", rundir.Failed, queue.Paused}, {"by-hand", rundir.Running, queue.Paused},
		{"over", rundir.Completed, queue.Paused}, {"damaged", rundir.Unreadable, queue.Paused},
		{"trains", rundir.Running, queue.Running}, {"alone", rundir.Running, ""},
	} {
		if err := os.MkdirAll(filepath.Join(dir, c.name), 0o777); err != nil {
			t.Fatal(err)
		}
		list = append(list, summarized{dir: filepath.Join(link, c.name), Summary: &rundir.Summary{Condition: c.condition}})
		if j := RestingOf(len(list), filepath.Join(dir, c.name), c.state); j != nil {
			jobs = append(jobs, *j)
		}
	}
	for _, name := range []string{"new", "new-paused", "elsewhere/new", "gone"} {
		jobs = append(jobs, Resting{Job: 20, Dir: filepath.Join(dir, name), Paused: name == "new-paused"})
	}
	list = append(list, queuedIn(link, markResting(list, jobs))...)
	var got []string
	for _, s := range list {
		got = append(got, fmt.Sprintf("%s: %s: %s", filepath.Base(s.dir), s.record().State, strings.TrimPrefix(s.next(), "trainer ")))
		if _, err := json.Marshal(s.record()); err != nil || !strings.Contains(shown(s, time.Now(), 80), s.record().State) {
			t.Error(err)
		}
	}
	want := []string{
		"suspended: waiting: jobs show 1", "again: waiting: jobs show 2", "paused: paused: jobs resume 3", "killed: paused: jobs resume 4",
		"by-hand: running: ", "over: paused: jobs resume 6", "damaged: unreadable: ", "trains: running: ", "alone: running: ",
		"new: queued: jobs show 20", "new-paused: paused: jobs resume 20",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got %q,\nwant %q", got, want)
	}
}
