package overview

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/berth-ml/berth/checkpoint/rundir"
	"github.com/berth-ml/berth/cmd/trainer/internal/cli"
	"github.com/berth-ml/berth/cmd/trainer/internal/text"
	"github.com/berth-ml/berth/engine/osfile"
	"github.com/berth-ml/berth/internal/units"
)

// summarized is a run with its path.
type summarized struct {
	dir string
	*rundir.Summary
	rests *Resting // the job that trains it; nil: it has none, or that does not rest
}

// summarize reads runs that a user names, beside the jobs that rest.
func summarize(dirs []string, jobs []Resting) (list []summarized, err error) {
	for _, dir := range dirs {
		if !rundir.IsRun(dir) {
			if i := slices.IndexFunc(jobs, func(j Resting) bool { return osfile.Real(j.Dir) == osfile.Real(dir) }); i >= 0 {
				return nil, cli.Usagef("%s has not begun: it is the run of job %d; trainer jobs show %[2]d shows why", dir, jobs[i].Job)
			}
			near, _ := rundir.Runs(filepath.Dir(dir)) // without the folder, no run is near
			return nil, cli.Usagef("%s is no run folder: name one, such as runs/digits; trainer runs ls lists those of a folder%s", dir, cli.DidYouMean(dir, near))
		}
		list = append(list, summarized{dir: dir, Summary: rundir.Summarize(dir)})
	}
	markResting(list, jobs)
	return list, nil
}

// runsIn are the runs of a folder.
func runsIn(dir string, given bool) (list []summarized, err error) {
	dirs, err := rundir.Runs(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist) && !given:
		return nil, nil
	case err != nil && isFile(dir), errors.Is(err, fs.ErrNotExist):
		return nil, cli.Usagef("%s is no folder: name one that holds run folders", dir)
	case err != nil:
		return nil, err
	case rundir.IsRun(dir):
		return nil, cli.Usagef("%s is a run: trainer runs show %s shows it", dir, dir)
	}
	for _, d := range dirs {
		list = append(list, summarized{dir: d, Summary: rundir.Summarize(d)})
	}
	return list, nil
}

func isFile(path string) bool {
	st, err := os.Stat(path)
	return err == nil && !st.IsDir()
}

// steps is "540/1800", or the steps alone where their number in all is not known.
func (s summarized) steps() string {
	if s.Total == 0 {
		return fmt.Sprint(s.Step)
	}
	return fmt.Sprintf("%d/%d", s.Step, s.Total)
}

// epochs is "12/40"; a run of so many steps has no number of epochs.
func (s summarized) epochs() string {
	if s.Config == nil || s.Config.Train.Steps > 0 {
		return fmt.Sprint(s.Epoch)
	}
	return fmt.Sprintf("%d/%d", s.Epoch, s.Config.Train.Epochs)
}

// metrics are the newest boundary's losses and metrics by name, or those of the
// newest checkpoint.
func (s summarized) metrics() map[string]float64 {
	all := map[string]float64{}
	if s.Newest != nil {
		maps.Copy(all, s.Newest.Metrics)
	}
	if s.Measured {
		maps.Copy(all, s.Last.Values)
	}
	return all
}

// tests are the losses and metrics of the test part by name; nil without such a part, and before the
// run is finished.
func (s summarized) tests() map[string]float64 {
	if s.Test == nil {
		return nil
	}
	all := map[string]float64{"test_loss": s.Test.Loss}
	for name, v := range s.Test.Metrics {
		all["test_"+name] = v
	}
	for name, v := range map[string]*float64{"test_accuracy": s.Test.Accuracy, "test_rmse": s.Test.RMSE} {
		if v != nil {
			all[name] = *v
		}
	}
	return all
}

// best is "val_accuracy 99.16%"; "" where no checkpoint has the metric.
func (s summarized) best() string {
	if s.Best.Metric == "" || math.IsNaN(s.Best.Value) {
		return ""
	}
	return fmt.Sprintf("%s %s", s.Best.Metric, text.Metric(s.Best.Metric, s.Best.Value))
}

// orDash is a text, or "-" for none.
func orDash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

// value is a metric in few characters.
func value(name string, v float64) string {
	switch {
	case text.IsShare(name):
		return text.Share(v)
	case strings.HasSuffix(name, "_bytes") && v >= 0 && v < math.MaxInt64:
		return units.Bytes(int64(v))
	case strings.HasSuffix(name, "_s") && !strings.HasSuffix(name, "_per_s") && v >= 0 && v < 1e9:
		return units.Time(time.Duration(v * float64(time.Second)))
	case (v == math.Trunc(v) || math.Abs(v) >= 1e3) && math.Abs(v) < 1e15:
		return units.Thousands(int64(math.Round(v)))
	}
	return text.Loss(v)
}

// ago is the time since then in one unit: 5s, 12m, 3h, 4d.
func ago(then, now time.Time) string {
	switch d := now.Sub(then); {
	case then.IsZero():
		return "-"
	case d < time.Second:
		return "now"
	case d < time.Minute:
		return fmt.Sprintf("%ds ago", d/time.Second)
	case d < time.Hour:
		return fmt.Sprintf("%dm ago", d/time.Minute)
	case d < 48*time.Hour:
		return fmt.Sprintf("%dh ago", d/time.Hour)
	default:
		return fmt.Sprintf("%dd ago", d/(24*time.Hour))
	}
}

// Record is a run as --json prints it.
type Record struct {
	Run         string             `json:"run"`
	State       string             `json:"state"`
	Name        string             `json:"name,omitempty"`
	Step        int                `json:"step"`
	Steps       int                `json:"steps,omitempty"`
	Epoch       int                `json:"epoch"`
	Metrics     map[string]float64 `json:"metrics"`
	Best        *bestRecord        `json:"best,omitempty"`
	Test        *rundir.Test       `json:"test,omitempty"` // as in report.json
	Checkpoints int                `json:"checkpoints"`
	Bytes       int64              `json:"bytes"`
	Changed     time.Time          `json:"changed,omitzero"` // zero: not known
	Error       string             `json:"error,omitempty"`
}

type bestRecord struct {
	Metric     string  `json:"metric"`
	Value      float64 `json:"value"`
	Step       int     `json:"step"`
	Checkpoint uint64  `json:"checkpoint,omitempty"`
}

func (s summarized) record() Record {
	r := Record{
		Run: s.dir, State: string(s.condition()), Step: s.Step, Steps: s.Total, Epoch: s.Epoch, Metrics: s.metrics(),
		Checkpoints: s.Checkpoints, Bytes: s.Bytes, Changed: Known(s.Changed).UTC(), Test: s.Test,
	}
	if s.Config != nil {
		r.Name = s.Config.Name
	}
	if s.best() != "" {
		r.Best = &bestRecord{s.Best.Metric, s.Best.Value, s.Best.Step, s.BestID}
	}
	if s.Problem != nil {
		r.Error = s.Problem.Error()
	}
	return r
}

// printJSON prints a value as --json does.
func printJSON(out io.Writer, v any) error {
	e := json.NewEncoder(out)
	e.SetIndent("", "  ")
	return e.Encode(v)
}

// metricNames are the names of the runs' metrics: losses first, measurements last.
func metricNames(list []summarized, of func(summarized) map[string]float64) []string {
	have := map[string]bool{}
	for _, s := range list {
		for name := range of(s) {
			have[name] = true
		}
	}
	place := func(name string) int {
		order := []string{"train_loss", "val_loss", "test_loss", "train_accuracy", "val_accuracy", "test_accuracy"}
		late := []string{"learning_rate", "grad_norm", "samples_per_s", "train_s", "val_s", "samples_seen", "tokens_seen", "device_peak_bytes"}
		if i := slices.Index(order, name); i >= 0 {
			return i
		}
		return len(order) + 1 + slices.Index(late, name)
	}
	return slices.SortedFunc(maps.Keys(have), func(a, b string) int {
		if d := place(a) - place(b); d != 0 {
			return d
		}
		return strings.Compare(a, b)
	})
}
