package executor_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"
	"weak"

	"github.com/berth-ml/berth/engine/device"
	faults "github.com/berth-ml/berth/engine/device/fault"
	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/executor"
	"github.com/berth-ml/berth/partition"
	"github.com/berth-ml/berth/residency"
	"github.com/berth-ml/berth/residency/ledger"
)

// A null device refuses to give bytes back, so an epoch that runs there asks
// for none.
func TestEpochOnNullDevices(t *testing.T) {
	for _, s := range []string{"gpipe", "1f1b"} {
		for n := 1; n <= 3; n++ {
			j := gptJob(4)
			j.last = 3
			r := mustRigWith(t, j, "null", n, s, executor.RuntimeOptions{Tenant: residency.TenantOptions{Strict: true}})
			if err := r.prog.Init(short(t), first); err != nil {
				t.Fatal(err)
			}
			r.rt.Residency.Seal()
			if err := r.run(short(t)); err != nil {
				t.Errorf("%d devices, %s: %v", n, s, err)
			}
		}
	}
}

func TestLedgerOfManySteps(t *testing.T) {
	t.Parallel()
	const steps = 40
	for _, s := range []string{"gpipe", "1f1b"} {
		for devices := 1; devices <= 3; devices++ {
			r := mustRig(t, gptJob(3), "cpu", devices, s, residency.ManagerOptions{})
			if err := r.prog.Init(short(t), first); err != nil {
				t.Fatal(err)
			}
			for _, v := range r.prog.Graph().Vars {
				if at := r.prog.Var(v.Name).Location(); strings.Contains(at, "host") {
					t.Errorf("%s is at %s", v.Name, at)
				}
			}
			b, err := r.feed(0, r.batch())
			if err != nil {
				t.Fatal(err)
			}
			for range steps {
				if _, err := r.prog.Step(short(t), b); err != nil {
					t.Fatal(err)
				}
				r.rt.Residency.Ledger().Step()
			}
			if err := r.prog.Drain(short(t)); err != nil {
				t.Fatal(err)
			}
			checkLedger(t, s, r, b)
		}
	}
}

// checkLedger compares the bytes that moved with the plan.
func checkLedger(t *testing.T, schedule string, r *rig, b executor.Batch) {
	t.Helper()
	what := fmt.Sprintf("%s on %d", schedule, len(r.devs))
	o, err := r.options(r.devs, schedule)
	if err != nil {
		t.Fatal(err)
	}
	if left, err := r.leftovers(); err != nil || len(left) > 0 {
		t.Errorf("%s: steps leave %v, %v", what, left, err)
	}
	var batch, crossing, weights int64
	for _, hb := range b.Fields {
		batch += int64(len(hb.Bytes()))
	}
	for _, x := range o.Full.Transfers {
		switch {
		case x.Local:
		case x.Rate == partition.PerMicrobatch:
			crossing += x.Bytes * int64(r.microbatches)
		case x.Rate == partition.PerStep:
			crossing += x.Bytes
		}
		if x.Value.Role == graph.Parameter && x.Value.Kind == graph.Variable {
			weights += x.Value.Meta.Bytes() // its first copy comes from the host, as the owner's does
		}
	}
	for _, v := range r.prog.Graph().Vars {
		if v.Role == graph.Parameter || v.Role == graph.Statistic {
			weights += v.Meta.Bytes()
		}
	}
	l := r.rt.Residency.Ledger()
	if got := l.OfUsage(ledger.CopyIn, device.Weight).Bytes; got != weights {
		t.Errorf("%s: %d bytes of weights were copied in, want them once: %d", what, got, weights)
	}
	s := l.SteadyState()
	if s.CopyIn.Min != batch || s.CopyIn.Max != batch {
		t.Errorf("%s: a step copies %+v in, want the batch, %d bytes", what, s.CopyIn, batch)
	}
	if s.Peer.Min != crossing || s.Peer.Max != crossing {
		t.Errorf("%s: %+v bytes go from peer to peer in a step, want what is cut, %d", what, s.Peer, crossing)
	}
	if out := l.Total(ledger.PullBack).Bytes + l.Total(ledger.Spill).Bytes; out != 0 {
		t.Errorf("%s: %d bytes came out, want none", what, out)
	}
}

func TestBatchesThatDoNotFit(t *testing.T) {
	j := mlpJob(2)
	j.last = 4
	r := mustRig(t, j, "cpu", 2, "1f1b", residency.ManagerOptions{})
	good, err := r.feed(0, r.batch())
	if err != nil {
		t.Fatal(err)
	}
	freed, err := r.devs[0].AllocHost(100)
	if err != nil {
		t.Fatal(err)
	}
	if err := freed.Free(); err != nil {
		t.Fatal(err)
	}
	few, err := r.feed(0, r.last)
	if err != nil {
		t.Fatal(err)
	}
	f := good.Fields
	for name, b := range map[string]executor.Batch{
		"no samples":      {Fields: f},
		"samples between": {Samples: 5, Fields: f},
		"too many":        {Samples: 7, Fields: f},
		"negative":        {Samples: -6, Fields: f},
		"no fields":       {Samples: 6},
		"a field less":    {Samples: 6, Fields: f[:1]},
		"a field more":    {Samples: 6, Fields: append(f[:2:2], f[0])},
		"nil field":       {Samples: 6, Fields: []device.HostBuffer{f[0], nil}},
		"freed field":     {Samples: 6, Fields: []device.HostBuffer{f[0], freed}},
		"short field":     {Samples: 6, Fields: few.Fields},
	} {
		if _, err := r.prog.Step(t.Context(), b); !errors.Is(err, executor.ErrBatch) {
			t.Errorf("%s: got %v, want ErrBatch", name, err)
		}
	}
	if r.prog.Next() != 1 {
		t.Errorf("the next ticket is %d after steps that were refused, want 1", r.prog.Next())
	}
	if err := r.run(short(t)); err != nil {
		t.Errorf("after that: %v", err)
	}
	roomy := executor.Batch{Samples: r.last, Fields: f}
	if _, err := r.prog.Step(t.Context(), roomy); err != nil {
		t.Errorf("a small batch in large buffers: %v", err)
	}
	if err := r.prog.Drain(short(t)); err != nil {
		t.Error(err)
	}
}

// What is kept for reuse grows for a while; after that, a step allocates
// nothing.
func TestStepsAllocateNothing(t *testing.T) {
	for devices := 1; devices <= 3; devices++ {
		r := mustRig(t, gptJob(4), "cpu", devices, "1f1b", residency.ManagerOptions{})
		ctx := context.Background()
		b, err := r.feed(0, r.batch())
		if err != nil {
			t.Fatal(err)
		}
		next := func() {
			if _, err := r.prog.Step(ctx, b); err != nil {
				t.Fatal(err)
			}
			r.rt.Residency.Ledger().Step()
		}
		n := testing.AllocsPerRun(50, next)
		for i := 0; i < 20 && n > 0; i++ {
			n = testing.AllocsPerRun(50, next)
		}
		if n > 0 {
			t.Errorf("%d devices: %v allocations a step, want none", devices, n)
		}
		if err := r.prog.Drain(ctx); err != nil {
			t.Fatal(err)
		}
	}
}

// goBuffer is host memory that the garbage collector frees.
type goBuffer struct{ b []byte }

func (g *goBuffer) Bytes() []byte { return g.b }

func (g *goBuffer) Free() error { return nil }

// Feeders come and go; nothing of them is kept once later steps have run.
func TestBatchesAreNotKept(t *testing.T) {
	r := mustRig(t, mlpJob(2), "cpu", 2, "1f1b", residency.ManagerOptions{})
	var gone []weak.Pointer[goBuffer]
	for i := range 8 {
		b := executor.Batch{Samples: r.batch()}
		for _, v := range r.prog.Inputs() {
			g := &goBuffer{r.rows(v, i, r.batch())}
			b.Fields = append(b.Fields, g)
			gone = append(gone, weak.Make(g))
		}
		if _, err := r.prog.Step(short(t), b); err != nil {
			t.Fatal(err)
		}
	}
	if err := r.prog.Drain(short(t)); err != nil {
		t.Fatal(err)
	}
	runtime.GC()
	kept := 0
	for _, g := range gone {
		if g.Value() != nil {
			kept++
		}
	}
	if most := 2 * len(r.prog.Inputs()); kept > most { // of the two steps that may be under way
		t.Errorf("%d buffers of %d are still kept, want at most %d", kept, len(gone), most)
	}
}

func TestTicketsInAnyOrder(t *testing.T) {
	r := mustRig(t, mlpJob(2), "cpu", 2, "1f1b", residency.ManagerOptions{})
	var tickets []executor.Ticket
	for i := range 6 {
		b, err := r.feed(i, r.batch())
		if err != nil {
			t.Fatal(err)
		}
		want := r.prog.Next()
		ticket, err := r.prog.Step(t.Context(), b)
		if err != nil || ticket != want {
			t.Fatalf("got ticket %d, %v, Next said %d", ticket, err, want)
		}
		tickets = append(tickets, ticket)
	}
	for _, i := range []int{5, 4, 5, 0, 3, 1, 2} {
		if err := r.prog.Wait(short(t), tickets[i]); err != nil {
			t.Errorf("ticket %d: %v", tickets[i], err)
		}
	}
	for _, never := range []executor.Ticket{0, 7, 8, 1000} {
		if err := r.prog.Wait(short(t), never); err != nil {
			t.Errorf("ticket %d, which was never given: %v", never, err)
		}
	}
	if err := r.prog.Drain(short(t)); err != nil {
		t.Error(err)
	}
}

func TestCancelWhileWaiting(t *testing.T) {
	j := faultJob()
	j.last = 0
	r, g := gatedRig(t, j, faults.Launch, 3)
	for i := range 2 {
		step(t, r, r.prog, i, j.batch())
	}
	b, err := r.feed(2, j.batch())
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		if _, err := r.prog.Step(ctx, b); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("step: got %v, want the deadline", err)
		}
		if err := r.prog.Wait(ctx, 2); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("wait: got %v, want the deadline", err)
		}
		if err := r.prog.Drain(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("drain: got %v, want the deadline", err)
		}
		cancel()
	}
	if r.prog.Next() != 3 {
		t.Errorf("the next ticket is %d, want 3", r.prog.Next())
	}
	g.open()
	if _, err := r.prog.Step(short(t), b); err != nil {
		t.Fatal(err)
	}
	if err := r.prog.Drain(short(t)); err != nil {
		t.Fatal(err)
	}
	got, err := r.vars(short(t))
	if err != nil {
		t.Fatal(err)
	}
	want, err := plain.trained(j)
	if err != nil {
		t.Fatal(err)
	}
	if d := differ(want, got); d != "" {
		t.Error(d)
	}
}

// endingContext has ended. Asking for its error lets a step end first.
type endingContext struct {
	context.Context
	end func()
}

func (c endingContext) Err() error {
	c.end()
	return c.Context.Err()
}

// A step that ends well while the context of its waiter ends is over: the runtime
// goes on.
func TestStepAndContextEndTogether(t *testing.T) {
	j := faultJob()
	j.last = 0
	r, g := gatedRig(t, j, faults.Launch, 3)
	step(t, r, r.prog, 0, j.batch())
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	ctx := endingContext{ended, func() {
		g.open()
		if _, err := r.prog.WeightsHash(short(t)); err != nil {
			t.Error(err)
		}
	}}
	if err := r.prog.Wait(ctx, 1); err != nil && !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	step(t, r, r.prog, 1, j.batch())
	if err := r.prog.Drain(short(t)); err != nil {
		t.Error(err)
	}
}

// A segment begins when the inputs of its first kernels are there: those of the layers
// behind still come. The weights are the same.
func TestSegmentBeginsBeforeItsLastInputs(t *testing.T) {
	j := mlpJob(1)
	want, err := plain.trained(j)
	if err != nil {
		t.Fatal(err)
	}
	kernels := make(chan device.KernelSpan, 1000)
	devs, err := device.Open("cpu", device.OpenOptions{
		Count: 1, Threads: 1, MemoryBytes: memory, OnKernel: func(k device.KernelSpan) { kernels <- k },
	})
	if err != nil {
		t.Fatal(err)
	}
	late, copies := newGate(), 0
	r, err := newRig(j, faults.Intercept(devs, func(o faults.Operation) faults.Outcome {
		if o.Op == faults.CopyIn {
			if copies++; copies == 4 { // after the first layer's input, weight and bias
				return faults.Outcome{After: device.Event{Queue: gated{late, nil}, Seq: 1}}
			}
		}
		return faults.Outcome{}
	}), "gpipe", residency.ManagerOptions{})
	if err != nil {
		t.Fatal(err)
	}
	step(t, r, r.prog, 0, j.batch())
	select {
	case k := <-kernels:
		if k.Work.Nodes[0].Layer.Name != "a" {
			t.Errorf("%v runs first", k.Work.Nodes)
		}
	case <-short(t).Done():
		t.Error("no kernel ran before all inputs were there")
	}
	late.open()
	for i := 1; i < len(j.epoch()); i++ {
		step(t, r, r.prog, i, j.batch())
	}
	if err := r.prog.Drain(short(t)); err != nil {
		t.Fatal(err)
	}
	got, err := r.vars(short(t))
	if err != nil {
		t.Fatal(err)
	}
	if d := differ(want, got); d != "" {
		t.Error(d)
	}
	if err := r.close(); err != nil {
		t.Error(err)
	}
}
