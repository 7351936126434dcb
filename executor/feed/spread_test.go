package feed_test

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/berth-ml/berth/datasets"
	"github.com/berth-ml/berth/engine/device"
	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/engine/models"
	"github.com/berth-ml/berth/executor"
	"github.com/berth-ml/berth/executor/feed"
	"github.com/berth-ml/berth/internal/smallrun"
	"github.com/berth-ml/berth/partition"
)

// lanesOf loads the model's answers on each device of a run, for so many samples at a
// time.
func lanesOf(t *testing.T, r *smallrun.Run, batch int) (lanes []feed.Lane) {
	t.Helper()
	size := func(n int) *graph.Graph {
		g, err := models.Predict(r.Spec, models.Size{Microbatch: n})
		if err != nil {
			t.Fatal(err)
		}
		return g
	}
	for k, d := range r.Devices {
		o := executor.LoadOptions{Net: string(d.ID()), Fetch: true, LastMicrobatches: 1}
		var err error
		if o.Full, err = partition.New(size(batch), partition.PlanOptions{
			Devices: specsOf(r), Stages: [][]string{blocksOf(r)}, On: []int{k}, Microbatches: 1,
		}); err != nil {
			t.Fatal(err)
		}
		if rest := r.Data.Val.Len() % batch; rest > 0 {
			if o.Tail, err = partition.Derive(o.Full, size(rest), partition.DeriveOptions{}); err != nil {
				t.Fatal(err)
			}
		}
		prog, err := r.Runtime.Load(o)
		if err != nil {
			t.Fatal(err)
		}
		lanes = append(lanes, feed.Lane{Device: d, Program: prog})
	}
	return lanes
}

// Every batch is done once, in order, though steps end in any; each lane has some, and
// results stay in their place until they are done.
func TestSpread(t *testing.T) {
	r := smallrun.New(t, "cpu:3")
	lanes := lanesOf(t, r, 7)
	ran, held := make([]int, len(lanes)), make([]datasets.Cursor, feed.Places(len(lanes)))
	at := 0
	results := feed.Results{
		Collect: func(lane, place int, b datasets.Batch) error {
			ran[lane]++
			held[place] = b.At
			return nil
		},
		Done: func(place int, b datasets.Batch) error {
			if b.At.Index != at || held[place] != b.At {
				t.Fatalf("done: %v, place %d has %v; %d samples before it", b.At, place, held[place], at)
			}
			at += b.Samples
			return nil
		},
	}
	if err := feed.Spread(t.Context(), lanes, r.Data.Val, 0, results); err != nil || at != r.Data.Val.Len() {
		t.Fatalf("%d samples of %d, %v", at, r.Data.Val.Len(), err)
	}
	if slices.Contains(ran, 0) {
		t.Errorf("batches by lane: %v", ran)
	}
}

// No lane is left out, though results are used more slowly than all lanes make them:
// among so many batches in a row, each lane has one.
func TestSpreadLeavesNoLaneOut(t *testing.T) {
	r := smallrun.New(t, "cpu:3")
	lanes := lanesOf(t, r, 7)
	most := feed.Places(len(lanes)) + len(lanes)
	last, batch := make([]int, len(lanes)), 0
	results := feed.Results{
		Collect: func(lane, _ int, b datasets.Batch) error {
			batch = b.At.Index / 7
			if n := batch - last[lane]; n > most {
				t.Errorf("lane %d has batch %d after %d others", lane, batch, n)
			}
			last[lane] = batch
			return nil
		},
		Done: func(int, datasets.Batch) error {
			time.Sleep(300 * time.Microsecond)
			return nil
		},
	}
	if err := feed.Spread(t.Context(), lanes, r.Data.Val, 0, results); err != nil {
		t.Fatal(err)
	}
	for lane, n := range last {
		if batch-n > most {
			t.Errorf("lane %d has no batch after %d of %d", lane, n, batch)
		}
	}
}

// An error of either function ends a spread, and nothing is queued any more: the lanes
// can be used again.
func TestSpreadEnds(t *testing.T) {
	r := smallrun.New(t, "cpu:2")
	lanes := lanesOf(t, r, 7)
	enough := errors.New("enough")
	for _, in := range []string{"collect", "done"} {
		n := 0
		end := func(name string) error {
			if n++; name == in && n > 8 {
				return enough
			}
			return nil
		}
		err := feed.Spread(t.Context(), lanes, r.Data.Val, 0, feed.Results{
			Collect: func(int, int, datasets.Batch) error { return end("collect") },
			Done:    func(int, datasets.Batch) error { return end("done") },
		})
		if !errors.Is(err, enough) {
			t.Errorf("%s: %v", in, err)
		}
	}
	samples := 0
	err := feed.Spread(t.Context(), lanes, r.Data.Val, 0, feed.Results{
		Collect: func(int, int, datasets.Batch) error { return nil },
		Done: func(_ int, b datasets.Batch) error {
			samples += b.Samples
			return nil
		},
	})
	if err != nil || samples != r.Data.Val.Len() {
		t.Errorf("again: %d samples, %v", samples, err)
	}
}

func specsOf(r *smallrun.Run) (specs []device.Spec) {
	for _, d := range r.Devices {
		specs = append(specs, d.Spec())
	}
	return specs
}

func blocksOf(r *smallrun.Run) (blocks []string) {
	for _, s := range r.Plan.Stages {
		blocks = append(blocks, s.Blocks...)
	}
	return blocks
}
