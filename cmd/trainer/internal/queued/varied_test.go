package queued

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"github.com/berth-ml/berth/jobs"
	"github.com/berth-ml/berth/jobs/queue"
)

// A lister tells which jobs are sweeps and trials; --json does not change.
func TestVaried(t *testing.T) {
	value := 0.5
	views := []jobs.View{
		{Job: queue.Job{ID: 1, Sweep: &queue.Sweep{Text: "sweep: {config: digits, vary: {optimizer.lr: log:1e-4..1e-1, train.batch: [16, 32]}, trials: 8, metric: val_accuracy}"}}},
		{Job: queue.Job{ID: 2, Sweep: &queue.Sweep{Text: "sweep: <damaged>"}}},
		{Job: queue.Job{ID: 3, Trial: &queue.Trial{Sweep: 1, Number: 1, Settings: []queue.Setting{{Key: "optimizer.lr", Value: "0.01"}, {Key: "train.batch", Value: "16"}}, Values: []*float64{nil, &value}, Out: true}}},
		{Job: queue.Job{ID: 4}},
	}
	l := NewLister("1")
	var first *Varied
	for range 2 {
		list := make([]Record, len(views))
		for i := range views {
			list[i] = listedRecord(&views[i])
		}
		l.vary(list, views)
		want := &Varied{Metric: "val_accuracy", Trials: 8, Vary: []Dimension{{Key: "optimizer.lr", Lo: 1e-4, Hi: 1e-1, Log: true}, {Key: "train.batch", Values: []string{"16", "32"}}}}
		if !reflect.DeepEqual(list[0].Varied, want) || list[1].Varied != nil || list[3].Varied != nil {
			t.Fatalf("%+v, %+v", list[0].Varied, list[1].Varied)
		}
		if first != nil && first != list[0].Varied {
			t.Error("a sweep that stands as before is read again")
		}
		first = list[0].Varied
		if want := (&Tried{[]string{"0.01", "16"}, &value, true}); !reflect.DeepEqual(list[2].Tried, want) || list[3].Tried != nil {
			t.Errorf("%+v", list[2].Tried)
		}
		if text, err := json.Marshal(list); err != nil || strings.Contains(string(text), "aried") || strings.Contains(string(text), "ried\"") {
			t.Errorf("%s %v", text, err)
		}
	}
}
