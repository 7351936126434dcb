package bench

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/berth-ml/berth/engine/device/fault"
	"github.com/berth-ml/berth/executor/ranks/crew"
	"github.com/berth-ml/berth/internal/runtest"
	"github.com/berth-ml/berth/internal/testall"
	"github.com/berth-ml/berth/partition"
)

// TestRanks: ranks measure the steps of one process, with its weights, and rank 0 has what all take and send, as predicted.
func TestRanks(t *testing.T) {
	testall.Long(t)
	w, err := Lookup("mlp")
	if err != nil {
		t.Fatal(err)
	}
	for _, x := range []struct {
		name     string
		size     int
		o        RunOptions
		replicas int
		idle     int // ranks without a part of the model
	}{
		{name: "replicas", size: 2, o: RunOptions{Reduction: partition.ReduceTree}, replicas: 2},
		{name: "stages", size: 2, o: RunOptions{}, replicas: 1},
		{name: "an idle rank", size: 3, o: RunOptions{Stages: 2}, replicas: 1, idle: 1},
	} {
		t.Run(x.name, func(t *testing.T) {
			o := x.o
			o.Steps, o.Microbatches, o.Threads = 12, 4, 1
			alone := o
			alone.Stages = 0
			want, err := Run(t.Context(), w, alone)
			if err != nil {
				t.Fatal(err)
			}
			got := make([]Result, x.size)
			for rank, err := range runtest.Ranks(t, x.size, 1, func(c *crew.Crew) (err error) {
				o := o
				o.Ranks = c
				got[c.Rank()], err = Run(t.Context(), w, o)
				return err
			}) {
				if err != nil {
					t.Fatalf("rank %d: %v", rank, err)
				}
			}
			r := got[0]
			if r.WeightsSHA256 != want.WeightsSHA256 || r.Loss != want.Loss || r.Steps != o.Steps || r.Replicas != x.replicas {
				t.Errorf("%d steps of %d replicas with loss %v and weights %s; one process has loss %v and weights %s", r.Steps, r.Replicas, r.Loss, r.WeightsSHA256, want.Loss, want.WeightsSHA256)
			}
			if len(r.Devices) != x.size || r.Threads != x.size || r.Ranks.Machines != x.size || r.Ranks.Library != "a loop" || len(r.Ranks.Each) != x.size {
				t.Errorf("devices %v with %d threads, ranks %+v", r.Devices, r.Threads, r.Ranks)
			}
			if r.StepMS.Median <= 0 || r.PeakGflops <= 0 || r.Ranks.PredictedMS <= 0 || r.Ranks.BytesPerS <= 0 || r.Ranks.PredictedOfMeasured != r.Ranks.PredictedMS/r.StepMS.Median {
				t.Errorf("step %+v, peak %v, ranks %+v", r.StepMS, r.PeakGflops, r.Ranks)
			}
			idle := 0
			for i, k := range r.Ranks.Each {
				if k.Rank != i || k.Machine != fmt.Sprintf("node%d", i) {
					t.Errorf("row %d is %+v", i, k)
				}
				// Each step has an order of 64 bytes to each other rank, and a second a sign of life.
				if more := k.SentBytes - k.PredictedSentBytes; more < 0 || more > 2048 {
					t.Errorf("rank %d sends %d bytes a step, and %d were predicted", i, k.SentBytes, k.PredictedSentBytes)
				}
				switch {
				case k.WorksMS == 0 && k.PredictedWorksMS == 0:
					idle++
				case k.WorksMS <= 0 || k.PredictedWorksMS <= 0 || k.WaitsMS < 0:
					t.Errorf("row %d is %+v", i, k)
				}
			}
			if idle != x.idle {
				t.Errorf("%d ranks have no part, want %d", idle, x.idle)
			}
			var table strings.Builder
			if err := WriteTable(&table, []Result{r}, 120); err != nil {
				t.Fatal(err)
			}
			if text := table.String(); strings.Count(text, "\n     mlp  ") != 3+x.size || !strings.Contains(text, fmt.Sprintf("\n%d ranks on %d machines, by a loop. ", x.size, x.size)) || !strings.Contains(text, " 1 (node1) ") {
				t.Errorf("the table is %s", text)
			}
		})
	}
}

// TestRanksInterrupted: where one rank is interrupted, all end after the same step, and hear of it.
func TestRanksInterrupted(t *testing.T) {
	testall.Long(t)
	w, err := Lookup("mlp")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(time.Second, cancel)
	for rank, err := range runtest.Ranks(t, 2, 1, func(c *crew.Crew) error {
		own := t.Context()
		if c.Rank() == 1 {
			own = ctx
		}
		_, err := Run(own, w, RunOptions{Ranks: c, Seconds: 3600, Threads: 1, Microbatches: 2, Reduction: partition.ReduceTree})
		return err
	}) {
		if v, ok := errors.AsType[*crew.Verdict](err); !ok || v.Error() != "rank 1 (node1): interrupted" || v.Kind != crew.Failed {
			t.Errorf("rank %d: %v", rank, err)
		}
	}
}

// TestRanksRefuse: ranks refuse what they cannot measure, and know by which facts they differ.
func TestRanksRefuse(t *testing.T) {
	w, err := Lookup("mlp")
	if err != nil {
		t.Fatal(err)
	}
	for rank, err := range runtest.Ranks(t, 2, 1, func(c *crew.Crew) error {
		for text, o := range map[string]RunOptions{
			"--profile":                     {Profile: true},
			"--watch":                       {Watch: time.Second},
			"--fault":                       {Faults: []fault.Fault{{}}},
			"give --microbatches 2 or more": {Reduction: partition.ReduceTree},
			"--replicas 2: give --reductio": {Replicas: 2, Microbatches: 2},
		} {
			o.Ranks = c
			if err := o.Check(w); !errors.Is(err, ErrOptions) || !strings.Contains(err.Error(), text) {
				t.Errorf("%s: %v", text, err)
			}
		}
		o := RunOptions{Ranks: c, Steps: 3 + c.Rank()}
		err := c.Agree(t.Context(), "its workloads", nil, o.Facts(w)...)
		if err == nil || err.Error() != "--steps differs: it is 3 on rank 0 (node0), and 4 on rank 1 (node1): give it to all ranks alike" {
			t.Errorf("other steps: %v", err)
		}
		return nil
	}) {
		if err != nil {
			t.Errorf("rank %d: %v", rank, err)
		}
	}
}

// TestFewRows: of many ranks, the table has the first, the one that works longest and the one that waits longest, each once.
func TestFewRows(t *testing.T) {
	var all []Rank
	for i := range partition.FewRanks + 5 {
		all = append(all, Rank{Rank: i, WorksMS: 2, WaitsMS: 1})
	}
	all[7].WorksMS, all[4].WaitsMS = 3, 2
	rows := func() (list []int) {
		for _, k := range few(all) {
			list = append(list, k.Rank)
		}
		return list
	}
	if got := rows(); !slices.Equal(got, []int{0, 4, 7}) {
		t.Errorf("the rows are of ranks %v", got)
	}
	all[0].WaitsMS = 5
	if got := rows(); !slices.Equal(got, []int{0, 7}) {
		t.Errorf("the rows are of ranks %v", got)
	}
	if got := waitedFor([]Waited{{3, 1}, {1, 12}, {2, 4}}); got != "1 for 12.0 ms, 2 for 4.00 ms" {
		t.Errorf("waited for %s", got)
	}
}
