package executor_test

import (
	"context"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/berth-ml/berth/engine/device"
	"github.com/berth-ml/berth/executor"
	"github.com/berth-ml/berth/executor/balance"
	"github.com/berth-ml/berth/partition"
	"github.com/berth-ml/berth/residency"
)

// Whatever shares replicas take, and whenever these change, the bits are those of one device, and no device takes
// more memory than the plans say.
func TestSameWeightsWithAnyShares(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		j := drawJob(t)
		j.reduction, j.microbatches = partition.ReduceTree, rapid.IntRange(4, 9).Draw(t, "of a step")
		if j.last > 0 {
			j.last = rapid.IntRange(1, j.batch()-1).Draw(t, "last batch")
		}
		j.replicas = 0
		want, err := plain.trained(j)
		if err != nil {
			t.Fatal(err)
		}
		j.replicas, j.balanced, j.estimated = rapid.IntRange(2, 3).Draw(t, "of the model"), true, true
		j.alone = rapid.Bool().Draw(t, "op by op")
		j.memory = rapid.SampledFrom([]int{0, 0, 99, 60}).Draw(t, "memory")
		devs, err := openDevices("cpu", j.replicas*rapid.IntRange(1, 2).Draw(t, "stages"), 1)
		if err != nil {
			t.Fatal(err)
		}
		r, err := newRig(j, devs, rapid.SampledFrom([]string{"gpipe", "1f1b", "interleaved", "zb-h1"}).Draw(t, "schedule"), residency.ManagerOptions{})
		defer func() {
			if err := r.close(); err != nil {
				t.Error(err)
			}
		}()
		if err != nil {
			t.Fatal(err)
		}
		for i, n := range r.epoch() {
			switch {
			case i == 0:
				r.prog.Measured([]float64{100, 1, 1}[:j.replicas])
			case rapid.Bool().Draw(t, "measured"):
				r.prog.Measured(rapid.SliceOfN(rapid.SampledFrom([]float64{1, 2, 5, 100}), j.replicas, j.replicas).Draw(t, "seconds"))
			}
			b, err := r.feed(i, n)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := r.prog.Step(t.Context(), b); err != nil {
				t.Fatal(err)
			}
			moves, err := r.prog.Moves()
			if err != nil || moves.Count == 0 || j.memory == 0 && moves.Others == 0 {
				t.Fatalf("%+v, %v", moves, err)
			}
		}
		got, err := r.vars(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if d := differ(want, got); d != "" {
			t.Fatal(d)
		}
		for _, f := range r.prog.Memory() {
			if peak := r.devs[f.Device].Stats().Peak; peak > f.Peak && j.memory == 0 && !j.alone { // what it measures is of segments
				t.Fatalf("%s takes %d bytes, the plans say %d", r.devs[f.Device].ID(), peak, f.Peak)
			}
		}
	})
}

// Where a device has no memory for more microbatches, its replica takes no more. That is recorded once.
func TestNoMemoryForMore(t *testing.T) {
	t.Parallel()
	j := mlpJob(8)
	j.reduction, j.replicas, j.balanced, j.estimated, j.memory = partition.ReduceTree, 2, true, true, 100
	r := mustRig(t, j, "cpu", 2, "1f1b", residency.ManagerOptions{})
	for i := range 30 {
		r.prog.Measured([]float64{1, 100})
		step(t, r, r.prog, i, r.batch())
	}
	if err := r.prog.Drain(short(t)); err != nil {
		t.Fatal(err)
	}
	moves, err := r.prog.Moves()
	if err != nil || moves.Count != 1 || moves.Others != 0 || !slices.Equal(moves.Now, []int{4, 4}) || !slices.Equal(moves.Newest[0].Full, []bool{true, false}) {
		t.Errorf("%+v, %v", moves, err)
	}
}

// A slow device keeps one microbatch, which shows when it has recovered: then it gets as many as suit it. Only the
// batch moves between host and devices meanwhile.
func TestSlowDevicesTakeLess(t *testing.T) {
	t.Parallel()
	const usual, slow = time.Millisecond, 20 * time.Millisecond // what the clock is told, however busy the machine is
	j := mlpJob(8)                                              // with a constant for each microbatch
	j.reduction, j.replicas = partition.ReduceTree, 2
	var lame atomic.Value // ID of the slow device
	lame.Store(device.ID("cpu:1"))
	r := clocked(t, j, func(s *device.Span) {
		took := usual
		if s.Device == lame.Load() {
			took = slow
		}
		s.End, s.Waited = s.Start.Add(took), 0
	})
	m := until(t, r, 7, 1)
	if m.Ticket > 10 || m.Seconds[1] < 19*m.Seconds[0] || m.Full[0] || m.Full[1] {
		t.Errorf("with a slow device, the shares changed so: %+v", m)
	}
	lame.Store(device.ID("cpu:0"))
	until(t, r, 1, 7) // that device has recovered, and the other one is slow
}

// until takes steps until replicas have these shares, and gives the move to them.
func until(t *testing.T, r *rig, shares ...int) executor.Move {
	t.Helper()
	var moves executor.Moves
	for i := range 40 {
		step(t, r, r.prog, i, r.batch())
		var err error
		if moves, err = r.prog.Moves(); err != nil {
			t.Fatal(err)
		}
		if slices.Equal(moves.Now, shares) {
			return moves.Newest[len(moves.Newest)-1]
		}
	}
	t.Fatalf("the shares changed so: %+v", moves)
	return executor.Move{}
}

// Launches that take a hundred times as long now and then, on one device or the other, as those of threads that the
// system stops, move nothing. Nor does the smaller last microbatch of an epoch, which one replica has.
func TestDisturbancesMoveNothing(t *testing.T) {
	t.Parallel()
	j := mlpJob(8)
	j.reduction, j.replicas, j.last = partition.ReduceTree, 2, 7*j.batch()/8+1
	var mu sync.Mutex
	launches, random := 0, map[device.ID]*rand.Rand{"cpu:0": rand.New(rand.NewPCG(1, 2)), "cpu:1": rand.New(rand.NewPCG(3, 4))}
	r := clocked(t, j, func(s *device.Span) {
		mu.Lock()
		defer mu.Unlock()
		took := time.Millisecond
		switch launches++; {
		case strings.Contains(s.What, ".tail"):
			took = time.Microsecond
		case s.Stream == device.ComputeStream && random[s.Device].IntN(10) == 0:
			took = 100 * time.Millisecond
		}
		s.End, s.Waited = s.Start.Add(took), 0
	})
	for i := range 20 {
		for _, n := range r.epoch() {
			step(t, r, r.prog, i, n)
		}
	}
	moves, err := r.prog.Moves()
	mu.Lock()
	defer mu.Unlock()
	if err != nil || moves.Count > 0 || launches < 1000 {
		t.Errorf("after %d launches: %+v, %v", launches, moves, err)
	}
}

// clocked is a rig of two devices that share microbatches by speed. change changes each span before the clock is told.
func clocked(t *testing.T, j job, change func(*device.Span)) *rig {
	t.Helper()
	var clock balance.Clock
	devs, err := device.Open("cpu", device.OpenOptions{Count: 2, Threads: 2, MemoryBytes: 2 * memory, OnSpan: func(s device.Span) {
		change(&s)
		clock.Add(s)
	}})
	if err != nil {
		t.Fatal(err)
	}
	r := &rig{job: j, devs: devs}
	t.Cleanup(func() {
		if r.prog != nil {
			if err := r.prog.Drain(context.Background()); err != nil {
				t.Error(err)
			}
		}
		if err := r.close(); err != nil {
			t.Error(err)
		}
	})
	o, err := j.options(r.devs, "1f1b")
	if err != nil {
		t.Fatal(err)
	}
	o.Balance = &executor.Balance{Clock: &clock}
	if r.rt, err = executor.NewRuntime(r.devs, executor.RuntimeOptions{Tenant: residency.TenantOptions{Strict: true}}); err != nil {
		t.Fatal(err)
	}
	if r.prog, err = r.rt.Load(o); err != nil {
		t.Fatal(err)
	}
	if err := r.prog.Init(t.Context(), first); err != nil {
		t.Fatal(err)
	}
	r.rt.Residency.Seal()
	return r
}
