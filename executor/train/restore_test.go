package train_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/berth-ml/berth"
	"github.com/berth-ml/berth/configs"
	"github.com/berth-ml/berth/datasets"
	"github.com/berth-ml/berth/engine/device"
	"github.com/berth-ml/berth/engine/device/cpu"
	"github.com/berth-ml/berth/internal/runtest"
	"github.com/berth-ml/berth/internal/testall"
)

// metricLine is a line of metrics.jsonl.
type metricLine struct {
	Step, Epoch int
	Loss        *float64
	TrainLoss   *float64 `json:"train_loss"`
}

func metricsOf(t *testing.T, dir string) (lines []metricLine) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(dir, "metrics.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	for line := range bytes.Lines(text) {
		var l metricLine
		if err := json.Unmarshal(line, &l); err != nil {
			t.Fatal(err)
		}
		lines = append(lines, l)
	}
	return lines
}

// A change of the config does not hide one of the data.
func TestEveryChangeIsSaid(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "data.csv")
	rows := "a,b,kind\n"
	for i := range 60 {
		rows += fmt.Sprintf("%d,%d,%s\n", i, i*7%13, []string{"low", "high"}[i/30])
	}
	write := func(rows string) {
		if err := os.WriteFile(path, []byte(rows), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	text := "data: {source: csv, path: " + path + ", label: kind}\nmodel: {preset: mlp, hidden: [8]}\ntrain: {epochs: 2, batch: 8}\n"
	write(rows)
	runtest.Train(t, runtest.Open(t, text), berth.TrainOptions{Dir: dir, MaxSteps: 2})
	write(strings.Replace(rows, "59,", "60,", 1))
	changed := runtest.Open(t, text, "optimizer.lr=0.5")
	var notes string
	_, err := changed.Train(t.Context(), berth.TrainOptions{Dir: dir, Resume: true})
	runtest.Train(t, changed, berth.TrainOptions{Dir: dir, Resume: true, AllowChanged: true, Observer: &berth.Observer{Note: func(s string) { notes += s + "\n" }}})
	if !errors.Is(err, berth.ErrChanged) {
		t.Fatalf("got %v, want ErrChanged", err)
	}
	for _, said := range []string{err.Error(), notes} {
		if !strings.Contains(said, "optimizer.lr was") || !strings.Contains(said, "the data is not what checkpoint 1 was trained on") {
			t.Errorf("%q does not say both", said)
		}
	}
}

// Of many changed layers, the first few are told.
func TestChangedLayersAreSaid(t *testing.T) {
	dir := t.TempDir()
	runtest.Train(t, runtest.Open(t, runtest.Everything), berth.TrainOptions{Dir: dir, MaxSteps: 1})
	other := runtest.Open(t, "data: digits\nmodel: {preset: cnn, channels: [4], hidden: [8]}\noptimizer: {name: adam}\nloss: cross_entropy\ntrain: {epochs: 9, batch: 8}\n")
	_, err := other.Train(t.Context(), berth.TrainOptions{Dir: dir, Resume: true})
	if !errors.Is(err, berth.ErrChanged) || strings.Count(err.Error(), " was ") > 7 || !strings.Contains(err.Error(), " more") {
		t.Errorf("got %v", err)
	}
}

// Other kernels give other last bits: a resume with them is refused by name, or
// allowed and said, and they are kept with the checkpoint.
func TestOtherKernelsAreRefused(t *testing.T) {
	t.Setenv(cpu.ISAVariable, "") // the best level, whatever the tests run with
	dir := t.TempDir()
	numerics := func() string {
		devs, err := device.Open("cpu", device.OpenOptions{Count: 1})
		if err != nil {
			t.Fatal(err)
		}
		defer devs[0].Close()
		return devs[0].Spec().Numerics
	}
	best := numerics()
	runtest.Train(t, runtest.Open(t, runtest.Everything), berth.TrainOptions{Dir: dir, MaxSteps: 1})
	for step, level := range []string{"", "generic", "generic", ""} {
		t.Setenv(cpu.ISAVariable, level)
		said := ""
		o := berth.TrainOptions{Dir: dir, Resume: true, MaxSteps: step + 2, Observer: &berth.Observer{Note: func(s string) { said += s + "\n" }}}
		from, to := best, numerics()
		if level == "" {
			from = "generic"
		}
		want := "computed with cpu " + from + ", and the devices now compute with cpu " + to
		if other := (step == 1 || step == 3) && best != "generic"; other {
			if _, err := runtest.Open(t, runtest.Everything).Train(t.Context(), o); !errors.Is(err, berth.ErrChanged) || !strings.Contains(err.Error(), want) {
				t.Errorf("step %d, level %q: %v, want %q", step, level, err, want)
			}
			o.AllowChanged = true
		} else {
			want = ""
		}
		runtest.Train(t, runtest.Open(t, runtest.Everything), o)
		if !strings.Contains(said, want) || want == "" && strings.Contains(said, "computed with") {
			t.Errorf("step %d, level %q: %q, want %q", step, level, said, want)
		}
	}
}

// Convolutions and attention have rounded with bf16 only since some time: a checkpoint says whether they did, so that an older one is
// noticed.
func TestCheckpointsNameWhatRounds(t *testing.T) {
	for text, kind := range map[string]string{runtest.Everything: "conv2d", runtest.Tied(t): "attention"} {
		for _, format := range []string{"float32", "bf16"} {
			r := runtest.Open(t, "precision: "+format+"\n"+text)
			prints, err := r.Fingerprints()
			if err != nil {
				t.Fatal(err)
			}
			if got, want := strings.HasSuffix(prints["numerics"], ", rounding in "+kind), format == "bf16"; got != want {
				t.Errorf("%s: numerics is %q", format, prints["numerics"])
			}
		}
	}
}

// After a change of batches or data, every step is logged once, in its epoch,
// and an epoch's loss is the mean over the samples of its steps: of those since
// the change in the epoch of it.
func TestMetricsAfterAChange(t *testing.T) {
	t.Parallel()
	const text = "data: {source: digits, split: 0.18}\nmodel: {preset: mlp, hidden: [8]}\n" +
		"train: {epochs: 3, batch: 32, microbatches: 4}\noptimizer: {name: adamw, lr: 0.01}\n"
	for _, c := range []struct {
		set     string
		samples int // in the training part, which had 323
		batch   int // which was 32
		stop    int // the step at which it changes, of 11 in an epoch
	}{
		{"train.batch=40", 323, 40, 4},
		{"train.batch=16", 323, 16, 11},
		{"train.batch=200", 323, 200, 15},
		{"data.split=0.3", 539, 32, 4},
		{"optimizer.lr=0.001", 323, 32, 4},
		{"train.batch=16", 323, 16, 4},
		{"train.batch=96", 323, 96, 6},
		{"train.batch=40", 323, 40, 22},
		{"data.split=0.3", 539, 32, 11},
	}[:testall.Or(5, 9)] {
		dir := t.TempDir()
		runtest.Train(t, runtest.Open(t, text), berth.TrainOptions{Dir: dir, MaxSteps: c.stop})
		changed := runtest.Open(t, text, c.set)
		if n := changed.Data.Train.Len(); n != c.samples {
			t.Fatalf("%s: %d samples", c.set, n)
		}
		runtest.Train(t, changed, berth.TrainOptions{Dir: dir, Resume: true, AllowChanged: true, MaxSteps: c.stop + 2})
		runtest.Train(t, runtest.Open(t, text, c.set), berth.TrainOptions{Dir: dir, Resume: true})
		same := c.batch == 32 && c.samples == 323
		checkMetrics(t, c.set, metricsOf(t, dir), func(step, at int) (samples int, ends, counts bool) {
			if step <= c.stop {
				samples = min(32, 323-at)
				rest := step == c.stop && !same && ((at+samples)%c.batch != 0 || c.samples != 323)
				return samples, rest || at+samples == 323, same || (c.stop-1)/11 > (step-1)/11
			}
			samples = min(c.batch, c.samples-at)
			return samples, at+samples == c.samples, true
		})
	}
}

// checkMetrics compares metrics with a plain replay of the run: of says of a
// step that begins at a sample how many it has, whether its epoch ends with it,
// and whether its loss counts for the epoch.
func checkMetrics(t *testing.T, name string, lines []metricLine, of func(step, at int) (samples int, ends, counts bool)) {
	t.Helper()
	step, epoch, at, ended := 0, 0, 0, 0
	var sum, weight float64
	for _, l := range lines {
		if l.TrainLoss != nil {
			ended++
			if want := sum / weight; l.Step != step || math.Abs(*l.TrainLoss-want) > 1e-5 {
				t.Errorf("%s: an epoch ends at step %d with loss %v, want step %d and %v", name, l.Step, *l.TrainLoss, step, want)
			}
			sum, weight = 0, 0
			continue
		}
		if step++; l.Loss == nil || l.Step != step || l.Epoch != epoch {
			t.Fatalf("%s: step %d of epoch %d is logged as %+v", name, step, epoch, l)
		}
		samples, ends, counts := of(step, at)
		if counts {
			sum += *l.Loss * float64(samples)
			weight += float64(samples)
		}
		if at += samples; ends {
			epoch, at = epoch+1, 0
		}
	}
	if epoch != 3 || ended < 2 {
		t.Errorf("%s: the metrics are of %d epochs", name, epoch)
	}
}

// A run that goes on with more rows keeps what was measured for it: its weights know no other
// scaling, order of classes or kinds.
func TestMeasuredOnce(t *testing.T) {
	const first = "a,b,kind\n" + "1,2,low\n3,5,high\n2,2,low\n4,7,high\n2,6,low\n3,9,high\n4,3,low\n1,8,high\n"
	words := strings.NewReplacer("a,b", "a,word", ",2,", ",x,", ",5,", ",y,", ",7,", ",,", ",3,", ",x,")
	for name, c := range map[string]struct {
		keys, rows, more string
	}{
		"numbers":        {"", first, "900,800,low\n700,600,high\n"},
		"a regression":   {", task: regression, label: a, ignore: [kind]", first, "900,800,low\n700,600,high\n"},
		"all the median": {`, columns: {"*": {missing: median}}`, words.Replace(first), "900,z,low\n,z,high\n"},
		"by number":      {`, columns: {"1": {kind: category, top: 2}, "-3": number}`, words.Replace(first), "900,z,low\n700,z,high\n"},
		"all few values": {`, columns: {"*": {top: 2}, a: number}`, words.Replace(first), "900,z,low\n700,z,high\n"},
	} {
		dir := t.TempDir()
		path := filepath.Join(dir, "data.csv")
		write := func(rows string) {
			if err := os.WriteFile(path, []byte(rows), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		text := "data: {source: csv, path: " + path + c.keys + "}\nmodel: {preset: mlp, hidden: [4]}\ntrain: {epochs: 2, batch: 4}\n"
		info := func(o berth.OpenOptions) datasets.Info {
			t.Helper()
			cfg, err := configs.Parse("test.yaml", []byte(text), configs.Overlay{})
			if err != nil {
				t.Fatal(err)
			}
			r, err := berth.Open(t.Context(), cfg, o)
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			defer r.Close()
			return r.Data.Info
		}
		run := filepath.Join(dir, "run")
		write(c.rows)
		runtest.Train(t, runtest.Open(t, text), berth.TrainOptions{Dir: run, MaxSteps: 1})
		was := info(berth.OpenOptions{})
		if now := info(berth.OpenOptions{Resume: run}); now.Fingerprint != was.Fingerprint {
			t.Errorf("%s: the same data has another fingerprint", name)
		}
		write(c.rows + strings.Repeat(c.more, 8))
		now, anew := info(berth.OpenOptions{Resume: run}), info(berth.OpenOptions{})
		was.Fingerprint, now.Fingerprint, anew.Fingerprint = "", "", ""
		textOf := func(i datasets.Info) string {
			b, err := json.Marshal(i)
			if err != nil {
				t.Fatal(err)
			}
			return string(b)
		}
		if textOf(now) != textOf(was) {
			t.Errorf("%s: measured anew:\n%s\nwas\n%s", name, textOf(now), textOf(was))
		}
		if textOf(anew) == textOf(was) {
			t.Errorf("%s: a new run has what the old one measured", name)
		}
	}
}
