package runstate_test

import (
	"encoding/json"
	"math"
	"reflect"
	"testing"

	"github.com/berth-ml/berth/checkpoint"
	"github.com/berth-ml/berth/checkpoint/runstate"
	"github.com/berth-ml/berth/configs"
	"github.com/berth-ml/berth/datasets"
	"github.com/berth-ml/berth/engine/metrics"
)

// cursor is a place in the data.
func cursor(epoch, index int) datasets.Cursor { return datasets.Cursor{Epoch: epoch, Index: index} }

func TestAdvance(t *testing.T) {
	var p runstate.Progress
	for i, next := range []datasets.Cursor{cursor(0, 32), cursor(0, 64), cursor(1, 0), cursor(1, 32)} {
		p.Advance(datasets.Batch{At: p.Cursor(), Next: next}, runstate.Pace{Epoch: 3, Batch: 32})
		if p.Step != i+1 || p.Cursor() != next {
			t.Errorf("after step %d: %+v", i+1, p)
		}
	}
	if p.Began != 3 || p.LastEpoch() != 1 {
		t.Errorf("the epoch began at step %d, the last step was of epoch %d", p.Began, p.LastEpoch())
	}
	p.Index = 0
	if p.LastEpoch() != 0 {
		t.Errorf("at an epoch's end, the last step was of epoch %d", p.LastEpoch())
	}
}

func TestResume(t *testing.T) {
	epochs := runstate.Pace{Epoch: 10, Batch: 32, Epochs: 3}
	p := runstate.Progress{Step: 14, Epoch: 1, Index: 4 * 32}
	if total := p.Resume(epochs); total != 30 || p.Began != 10 {
		t.Errorf("%d steps in all, the epoch began at %d", total, p.Began)
	}
	p = runstate.Progress{Step: 30, Epoch: 3}
	if total := p.Resume(runstate.Pace{Epoch: 10, Batch: 32, Epochs: 2}); total != 30 { // the config has fewer epochs now
		t.Errorf("%d steps in all", total)
	}
	p = runstate.Progress{Step: 20, Epoch: 2, Unmeasured: true} // its losses are still in the rings
	if total := p.Resume(epochs); total != 30 || p.Began != 10 {
		t.Errorf("%d steps in all, the epoch to evaluate began at %d", total, p.Began)
	}
	if p.Take(runstate.Boundary{Step: 20}, &configs.Config{}); p.Unmeasured {
		t.Error("the epoch counts as not evaluated")
	}
}

// Boundaries, the steps left and the epoch of each step are the same however the run
// came to a step.
func TestPace(t *testing.T) {
	for _, l := range []runstate.Pace{
		{Epoch: 10, Batch: 32, Epochs: 3}, {Epoch: 10, Batch: 32, Steps: 25}, {Epoch: 10, Batch: 32, Steps: 4},
		{Epoch: 10, Batch: 32, Epochs: 3, Boundary: 4}, {Epoch: 10, Batch: 32, Steps: 25, Boundary: 7}, {Epoch: 1, Batch: 32, Steps: 5, Boundary: 2},
	} {
		var p runstate.Progress
		before := 0 // the last boundary
		for p.Step < l.Total() {
			next := cursor(p.Epoch, p.Index+l.Batch)
			if next.Index == l.Epoch*l.Batch {
				next = cursor(p.Epoch+1, 0)
			}
			p.Advance(datasets.Batch{At: p.Cursor(), Next: next}, l)
			resumed := p
			resumed.Unmeasured = p.AtBoundary(l, l.Total())
			if total := resumed.Resume(l); total != l.Total() || resumed.Began != before || p.Began != before {
				t.Errorf("%+v, step %d: %d steps in all, the boundary before was at %d and %d, expected %d", l, p.Step, total, resumed.Began, p.Began, before)
			}
			for step := 1; step <= p.Step; step++ {
				if epoch, in := p.PlaceOf(step, l); epoch != (step-1)/l.Epoch || in != (step-1)%l.Epoch+1 {
					t.Errorf("%+v at step %d: step %d is number %d of epoch %d", l, p.Step, step, in, epoch)
				}
			}
			if n := p.Epoch + l.EpochsFrom(&p, l.Total()); n != (l.Total()+l.Epoch-1)/l.Epoch {
				t.Errorf("%+v at step %d: %d epochs are read", l, p.Step, n)
			}
			want := p.Step == l.Total() || l.Boundary == 0 && p.Step%l.Epoch == 0 || l.Boundary > 0 && p.Step%l.Boundary == 0
			if p.AtBoundary(l, l.Total()) != want {
				t.Errorf("%+v: step %d is a boundary: %v", l, p.Step, !want)
			}
			if want {
				if p.Step-before > l.Longest() {
					t.Errorf("%+v: %d steps up to step %d, and the longest interval has %d", l, p.Step-before, p.Step, l.Longest())
				}
				before = p.Step
			}
		}
	}
}

func TestRealign(t *testing.T) {
	for _, c := range []struct {
		index, batch, samples int
		sameData, moves       bool
	}{
		{0, 32, 320, false, false},
		{64, 32, 320, true, false},
		{64, 16, 320, true, false},
		{64, 48, 320, true, true},
		{64, 32, 64, true, true},
		{64, 32, 320, false, true},
	} {
		p := runstate.Progress{Step: 12, Epoch: 1, Index: c.index}
		if moved := p.Realign(c.sameData, c.batch, c.samples); moved != c.moves || moved && p.Cursor() != cursor(2, 0) {
			t.Errorf("%+v: moved %v, to %v", c, moved, p.Cursor())
		}
	}
}

// Early stopping counts the epochs since the metric improved by more than
// min_delta; a value that is not a number never improves.
func TestEarlyStopping(t *testing.T) {
	c := &configs.Config{EarlyStopping: configs.EarlyStopping{Metric: "val_loss", Patience: 2, MinDelta: 0.1}}
	c.Checkpoint.Best = "val_accuracy"
	var p runstate.Progress
	for i, x := range []struct {
		loss, accuracy float64
		bad            int
		best           float64
	}{{1, 0.5, 0, 0.5}, {0.95, 0.7, 1, 0.7}, {0.5, 0.6, 0, 0.7}, {math.NaN(), 0.7, 1, 0.7}, {0.45, 0.8, 2, 0.8}} {
		p.Step += 10
		p.Take(runstate.Boundary{Epoch: i, Step: p.Step, ValLoss: &x.loss, ValAccuracy: &x.accuracy}, c)
		if p.Watched.Bad != x.bad || p.Best.Value != x.best || p.StoppedEarly(c.EarlyStopping) != (x.bad >= 2) {
			t.Errorf("epoch %d: %+v, best %+v", i, p.Watched, p.Best)
		}
	}
	if m := p.Metrics(); m["val_accuracy"] != 0.8 {
		t.Errorf("metrics now: %v", m)
	}
	p.Step++
	if m := p.Metrics(); m != nil {
		t.Errorf("metrics of other weights: %v", m)
	}
}

// After a change of the positive class, the best begins anew where it is about that class, and so does
// early stopping. Other metrics compare with their values before; the step stays known for later.
func TestAnotherPositive(t *testing.T) {
	c := &configs.Config{EarlyStopping: configs.EarlyStopping{Metric: "val_loss", Patience: 2}}
	c.Checkpoint.Best = "val_f1_positive"
	p := runstate.Progress{Step: 10}
	take := func(step int, f1, loss float64) {
		p.Step = step
		p.Take(runstate.Boundary{Step: step, ValLoss: &loss, Metrics: map[string]float64{"f1_positive": f1}}, c)
	}
	take(10, 0.9, 0.5)
	if !p.AnotherPositive(c) {
		t.Error("nothing begins anew")
	}
	take(20, 0.6, 0.6)
	if want := (checkpoint.Best{Metric: "val_f1_positive", Value: 0.6, Step: 20, Since: 10}); p.Best != want || p.Watched.Bad != 1 {
		t.Errorf("%+v, %+v", p.Best, p.Watched)
	}
	c.Checkpoint.Best = "val_loss"
	if p.AnotherPositive(c) {
		t.Error("the loss begins anew")
	}
	take(30, 0.7, 0.6)
	if want := (checkpoint.Best{Metric: "val_loss", Value: 0.6, Step: 30, Minimize: true}); p.Best != want {
		t.Errorf("%+v", p.Best)
	}
	c.Checkpoint.Best, c.EarlyStopping.Metric = "val_f1_positive", "val_f1_positive"
	take(40, 0.5, 0.6)
	if want := (checkpoint.Best{Metric: "val_f1_positive", Value: 0.5, Step: 40, Since: 20}); p.Best != want {
		t.Errorf("%+v", p.Best)
	}
	if p.AnotherPositive(c); p.Watched != (runstate.Watched{}) {
		t.Errorf("%+v", p.Watched)
	}
}

// After a change of what is trained, no checkpoint before it is the best, whatever its metric, and early
// stopping begins anew. The later of two changes counts.
func TestAnew(t *testing.T) {
	c := &configs.Config{EarlyStopping: configs.EarlyStopping{Metric: "val_loss", Patience: 2}}
	c.Checkpoint.Best = "val_loss"
	p := runstate.Progress{Step: 10}
	if p.Anew() {
		t.Error("there is nothing yet that begins anew")
	}
	take := func(step int, loss float64) {
		p.Step = step
		p.Take(runstate.Boundary{Step: step, ValLoss: &loss, Metrics: map[string]float64{"f1_positive": loss}}, c)
	}
	take(20, 0.1)
	take(30, 0.2)
	if !p.Anew() || p.Watched != (runstate.Watched{}) {
		t.Errorf("not all begins anew: %+v", p)
	}
	take(40, 0.6)
	if want := (checkpoint.Best{Metric: "val_loss", Value: 0.6, Step: 40, Minimize: true, Since: 30}); p.Best != want || p.Watched.Bad != 0 {
		t.Errorf("%+v, %+v", p.Best, p.Watched)
	}
	c.Checkpoint.Best = "val_f1_positive"
	p.AnotherPositive(c)
	take(50, 0.5)
	if want := (checkpoint.Best{Metric: "val_f1_positive", Value: 0.5, Step: 50, Since: 40}); p.Best != want {
		t.Errorf("%+v", p.Best)
	}
}

// A metric that is not defined, or infinite, is never the best, counts as no
// improvement, and hinders no save.
func TestMetricsThatAreNotFinite(t *testing.T) {
	for _, bad := range []float64{math.NaN(), math.Inf(1), math.Inf(-1)} {
		for _, metric := range []string{"val_auc", "val_perplexity"} {
			c := &configs.Config{EarlyStopping: configs.EarlyStopping{Metric: metric, Patience: 9}}
			c.Checkpoint.Best = metric
			var p runstate.Progress
			for i, v := range []float64{bad, 0.5, bad} {
				p.Step = 10 * (i + 1)
				p.Take(runstate.Boundary{Step: p.Step, Metrics: metrics.Values{configs.MetricOf(metric): v}}, c)
				if _, err := json.Marshal(runstate.State{Progress: p}); err != nil {
					t.Errorf("%s %v: %v", metric, v, err)
				}
				if _, has := p.Metrics()[metric]; has != (v == 0.5) {
					t.Errorf("%s %v: metrics %v", metric, v, p.Metrics())
				}
			}
			if p.Best.Value != 0.5 || p.Best.Step != 20 || p.Watched.Bad != 1 || *p.Watched.Best != 0.5 {
				t.Errorf("%s %v: best %+v, %+v", metric, bad, p.Best, p.Watched)
			}
		}
	}
}

// A checkpoint keeps these fields under these names.
func TestStateFormat(t *testing.T) {
	const text = `{"Progress":{"Step":14,"Epoch":1,"Index":128,"Lost":3,"Imported":4,` +
		`"Best":{"Metric":"val_loss","Value":0.5,"Step":10,"Minimize":true},"Watched":{"Metric":"val_loss","Best":0.5,"Bad":1},` +
		`"Last":{"Epoch":0,"Step":10,"TrainLoss":0.6,"ValLoss":0.5,"SamplesPerS":9,"Time":7}},"Data":{"Classes":3}}`
	st, err := runstate.Of(&checkpoint.Manifest{Extra: []byte(text)})
	if err != nil {
		t.Fatal(err)
	}
	loss, train := 0.5, 0.6
	want := runstate.Progress{
		Step: 14, Epoch: 1, Index: 128, Lost: 3, Imported: 4,
		Best:    checkpoint.Best{Metric: "val_loss", Value: 0.5, Step: 10, Minimize: true},
		Watched: runstate.Watched{Metric: "val_loss", Best: &loss, Bad: 1},
		Last:    runstate.Boundary{Step: 10, TrainLoss: &train, ValLoss: &loss, SamplesPerS: 9, Time: 7},
	}
	if !reflect.DeepEqual(st.Progress, want) || st.Data.Classes != 3 {
		t.Errorf("got %+v", st)
	}
	again, err := json.Marshal(st)
	if err != nil {
		t.Fatal(err)
	}
	twice, err := runstate.Of(&checkpoint.Manifest{Extra: again})
	if err != nil || !reflect.DeepEqual(twice, st) {
		t.Errorf("written and read: %+v, %v", twice, err)
	}
}

// A metric that is not defined passes through a checkpoint, is no value of it, and no
// improvement.
func TestUndefinedMetric(t *testing.T) {
	c := &configs.Config{EarlyStopping: configs.EarlyStopping{Metric: "val_auc", Patience: 1}, Checkpoint: configs.Checkpoint{Best: "val_mae"}}
	p := runstate.Progress{Step: 1}
	p.Take(runstate.Boundary{Step: 1, Metrics: metrics.Values{"auc": math.NaN(), "mae": 3}}, c)
	b, err := json.Marshal(p)
	if err != nil {
		t.Fatal(err)
	}
	var again runstate.Progress
	if err := json.Unmarshal(b, &again); err != nil || !math.IsNaN(again.Last.Metrics["auc"]) || again.Last.Metrics["mae"] != 3 {
		t.Errorf("%s became %+v, %v", b, again.Last, err)
	}
	if m := again.Metrics(); len(m) != 1 || m["val_mae"] != 3 {
		t.Errorf("the checkpoint has %v", m)
	}
	again.Step = 2
	again.Take(runstate.Boundary{Step: 2, Metrics: metrics.Values{"auc": math.NaN(), "mae": 2}}, c)
	if !again.StoppedEarly(c.EarlyStopping) || again.Best.Value != 2 || !again.Best.Minimize {
		t.Errorf("watched %+v, best %+v", again.Watched, again.Best)
	}
}
