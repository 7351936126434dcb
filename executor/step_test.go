package executor_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"runtime"
	"strings"
	"testing"
	"weak"

	"github.com/berth-ml/berth/engine/device"
	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/engine/models"
	"github.com/berth-ml/berth/engine/ops"
	"github.com/berth-ml/berth/engine/shape"
	"github.com/berth-ml/berth/executor"
	"github.com/berth-ml/berth/executor/schedule"
	"github.com/berth-ml/berth/partition"
	"github.com/berth-ml/berth/residency"
)

// A null device refuses to give bytes back, so an epoch that runs there asks
// for none.
func TestEpochOnNullDevices(t *testing.T) {
	for _, s := range []string{"gpipe", "1f1b"} {
		for n := 1; n <= 3; n++ {
			j := gptJob(4)
			j.last = 3
			r := mustRig(t, j, "null", n, s, residency.ManagerOptions{Strict: true})
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
	const steps = 100
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
			checkLedger(t, fmt.Sprintf("%s on %d", s, devices), r, b)
		}
	}
}

// checkLedger compares what moved with what the plan says.
func checkLedger(t *testing.T, what string, r *rig, b executor.Batch) {
	t.Helper()
	o, err := r.options(r.devs, "1f1b")
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
	if got := l.OfUsage(residency.CopyIn, device.Weight).Bytes; got != weights {
		t.Errorf("%s: %d bytes of weights were copied in, want them once: %d", what, got, weights)
	}
	s := l.SteadyState()
	if s.CopyIn.Min != batch || s.CopyIn.Max != batch {
		t.Errorf("%s: a step copies %+v in, want the batch, %d bytes", what, s.CopyIn, batch)
	}
	if s.Peer.Min != crossing || s.Peer.Max != crossing {
		t.Errorf("%s: %+v bytes go from peer to peer in a step, want what is cut, %d", what, s.Peer, crossing)
	}
	if out := l.Total(residency.PullBack).Bytes + l.Total(residency.Spill).Bytes; out != 0 {
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

// Training and evaluation on one runtime share weights: what evaluation adds up
// is what it is for the weights that training has just then.
func TestProgramsShareWeights(t *testing.T) {
	for devices := 1; devices <= 2; devices++ {
		alone, together := evaluated(t, devices, false), evaluated(t, devices, true)
		for i := range alone {
			if alone[i] != together[i] {
				t.Errorf("%d devices, after step %d: the loss is %v, of the same weights alone %v", devices, i, together[i], alone[i])
			}
		}
		if alone[0] == alone[1] {
			t.Error("a step changes nothing")
		}
	}
}

// evaluated is the evaluation loss after each step of training, either in the
// midst of it, or each on a runtime of its own.
func evaluated(t *testing.T, devices int, together bool) (losses []float32) {
	t.Helper()
	const steps = 4
	r := mustRig(t, gptJob(2), "cpu", devices, "1f1b", residency.ManagerOptions{})
	eval := loadEval(t, r)
	for i := range steps {
		if !together {
			r = mustRig(t, gptJob(2), "cpu", devices, "1f1b", residency.ManagerOptions{})
			eval = loadEval(t, r)
		}
		for k := range i + 1 {
			if together && k < i {
				continue
			}
			step(t, r, r.prog, k, r.batch())
		}
		if err := r.rt.Residency.Fill(eval.Var(models.EvalLoss), make([]byte, 4)); err != nil {
			t.Fatal(err)
		}
		for k := range 3 {
			step(t, r, eval, 100+k, 3)
		}
		d, err := r.rt.Residency.EnsureHost(short(t), residency.Epoch, eval.Var(models.EvalLoss))
		if err != nil {
			t.Fatal(err)
		}
		losses = append(losses, d.Data().([]float32)[0])
	}
	return losses
}

// step queues a step without waiting for it.
func step(t *testing.T, r *rig, p *executor.Program, number, samples int) {
	t.Helper()
	b, err := r.feed(number, samples)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := p.Step(short(t), b); err != nil {
		t.Fatal(err)
	}
}

// loadEval loads the evaluation of 3 samples at a time, with contents for what
// it adds up.
func loadEval(t *testing.T, r *rig) *executor.Program {
	t.Helper()
	g, err := models.Eval(r.spec, 3)
	if err != nil {
		t.Fatal(err)
	}
	plan, err := partition.New(g, partition.PlanOptions{Devices: specs(r.devs), Microbatches: 1})
	if err != nil {
		t.Fatal(err)
	}
	p, err := r.rt.Load(executor.LoadOptions{Net: "eval", Full: plan})
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{models.EvalLoss, models.EvalCorrect} {
		if err := r.rt.Residency.Fill(p.Var(name), make([]byte, 4)); err != nil {
			t.Fatal(err)
		}
	}
	return p
}

func TestFetchKeepsOutputsThatAreReadToo(t *testing.T) {
	j := mlpJob(1)
	b := graph.NewBuilder("outputs", 1)
	x := b.Input("input", shape.F32(3, 5))
	restore := b.In(&graph.Layer{Type: "dense", Name: "k", Block: "k"})
	y := ops.Relu(b, x)
	restore()
	b.In(&graph.Layer{Type: "dense", Name: "l", Block: "l"})
	z := ops.Relu(b, y)
	b.Output("middle", y)
	b.Output("end", z)
	g, err := b.Graph()
	if err != nil {
		t.Fatal(err)
	}
	r := mustRig(t, j, "cpu", 2, "1f1b", residency.ManagerOptions{})
	plan, err := partition.New(g, partition.PlanOptions{Devices: specs(r.devs), Microbatches: 1})
	if err != nil {
		t.Fatal(err)
	}
	p, err := r.rt.Load(executor.LoadOptions{Net: "fetch", Full: plan, Fetch: true})
	if err != nil {
		t.Fatal(err)
	}
	in, err := r.devs[0].AllocHost(60)
	if err != nil {
		t.Fatal(err)
	}
	r.bufs = append(r.bufs, in)
	shape.View[float32](in.Bytes())[4] = 2.5
	for range 3 {
		if _, err := p.Step(t.Context(), executor.Batch{Samples: 3, Fields: []device.HostBuffer{in}}); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{y.Name, z.Name} {
		out, err := p.Output(name, 3)
		if err != nil {
			t.Fatal(err)
		}
		d, err := r.rt.Residency.EnsureHost(short(t), residency.Fetch, out)
		if err != nil {
			t.Fatal(err)
		}
		if got := d.Data().([]float32)[4]; got != 2.5 {
			t.Errorf("%s is %v, want 2.5", name, got)
		}
	}
	if _, err := p.Output(x.Name, 3); err == nil {
		t.Error("an input is given as an output")
	}
	if _, err := r.prog.Output(y.Name, r.batch()); err == nil {
		t.Error("a program that keeps nothing gives an output")
	}
}

func TestOptionsThatCannotBe(t *testing.T) {
	j := mlpJob(3)
	j.last = 4
	r := mustRig(t, j, "cpu", 2, "1f1b", residency.ManagerOptions{})
	for name, change := range map[string]func(o *executor.LoadOptions){
		"the same name":          func(o *executor.LoadOptions) { o.Net = "train" },
		"no schedule":            func(o *executor.LoadOptions) { o.Schedule = "" },
		"no constants":           func(o *executor.LoadOptions) { o.Constant = nil },
		"no last microbatch":     func(o *executor.LoadOptions) { o.LastMicrobatches = 0 },
		"many last microbatches": func(o *executor.LoadOptions) { o.LastMicrobatches = 4 },
	} {
		o, err := j.options(r.devs, "gpipe")
		if err != nil {
			t.Fatal(err)
		}
		o.Net = name
		change(&o)
		if _, err := r.rt.Load(o); !errors.Is(err, executor.ErrOptions) {
			t.Errorf("%s: got %v, want ErrOptions", name, err)
		}
	}
	for name, metas := range map[string][2]shape.Meta{
		"a scalar input": {shape.F32(3, 2), shape.F32()},
		"unequal rows":   {shape.F32(3, 2), shape.F32(2, 2)},
	} {
		b := graph.NewBuilder(name, 1)
		b.In(&graph.Layer{Type: "dense", Name: "l", Block: "l"})
		for i, m := range metas {
			b.Output(fmt.Sprint("out", i), ops.Relu(b, b.Input(fmt.Sprint("in", i), m)))
		}
		g, err := b.Graph()
		if err != nil {
			t.Fatal(err)
		}
		plan, err := partition.New(g, partition.PlanOptions{Devices: specs(r.devs), Microbatches: 1})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := r.rt.Load(executor.LoadOptions{Net: name, Full: plan}); !errors.Is(err, executor.ErrOptions) {
			t.Errorf("%s: got %v, want ErrOptions", name, err)
		}
	}
	o, err := j.options(append(r.devs, r.devs...), "gpipe")
	if err != nil {
		t.Fatal(err)
	}
	o.Net = "elsewhere"
	if _, err := r.rt.Load(o); !errors.Is(err, executor.ErrOptions) {
		t.Errorf("more devices than there are: got %v, want ErrOptions", err)
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
func (g *goBuffer) Free() error   { return nil }

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

// Memory that is only kept for reuse gives way to what a program needs to be
// compiled.
func TestLoadTakesBackPooledMemory(t *testing.T) {
	r := mustRig(t, mlpJob(1), "cpu", 1, "1f1b", residency.ManagerOptions{}) // on 16 MiB
	load := func(name string, floats int) *executor.Program {
		t.Helper()
		b := graph.NewBuilder(name, 1)
		b.In(&graph.Layer{Type: "dense", Name: "l", Block: "l"})
		x := ops.Tanh(b, ops.Relu(b, b.Input("input", shape.F32(1, floats))))
		b.Output("sum", ops.Sum(b, x, false, 0, 1))
		b.Output("half", ops.SliceOf(b, x, []int{0, 0}, []int{1, floats / 2}))
		g, err := b.Graph()
		if err != nil {
			t.Fatal(err)
		}
		roomy := specs(r.devs) // planning is not what is tested
		roomy[0].MemoryBytes = 1 << 30
		plan, err := partition.New(g, partition.PlanOptions{Devices: roomy, Microbatches: 1})
		if err != nil {
			t.Fatal(err)
		}
		p, err := r.rt.Load(executor.LoadOptions{Net: name, Full: plan})
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	p := load("first", 1<<20)
	in := &goBuffer{make([]byte, 4<<20)}
	if _, err := p.Step(t.Context(), executor.Batch{Samples: 1, Fields: []device.HostBuffer{in}}); err != nil {
		t.Fatal(err)
	}
	if m := r.rt.Residency.Memory(0); m.Pooled < 4<<20 {
		t.Fatalf("%+v: the test needs pooled memory", m)
	}
	load("second", 5<<19) // temporaries of 10 MiB
	if m := r.rt.Residency.Memory(0); m.Pooled != 0 {
		t.Errorf("%d bytes are pooled still: the test does not need them back", m.Pooled)
	}
}

func TestCheckFiniteNamesTheLayer(t *testing.T) {
	for devices := 1; devices <= 3; devices++ {
		j := mlpJob(2)
		r := mustRig(t, j, "cpu", devices, "1f1b", residency.ManagerOptions{})
		o, err := j.options(r.devs, "1f1b")
		if err != nil {
			t.Fatal(err)
		}
		o.Net, o.CheckFinite, o.Schedule = "check", true, ""
		if o.Full, err = o.Full.Forward(); err != nil {
			t.Fatal(err)
		}
		p, err := r.rt.Load(o)
		if err != nil {
			t.Fatal(err)
		}
		step(t, r, p, 0, j.batch())
		if err := p.Drain(short(t)); err != nil {
			t.Errorf("finite weights: %v", err)
		}
		v := p.Graph().Find("b.weight")
		bad := make([]float32, v.Meta.Elems())
		bad[3] = float32(math.Inf(1))
		if err := r.rt.Residency.Fill(p.Var(v.Name), shape.Bytes(bad)); err != nil {
			t.Fatal(err)
		}
		b, err := r.feed(0, j.batch())
		if err != nil {
			t.Fatal(err)
		}
		// The failure may be there before the step's last task is queued.
		if _, err = p.Step(short(t), b); err == nil {
			err = p.Drain(short(t))
		}
		var finite *device.NonFiniteError
		var task *executor.TaskError
		if !errors.As(err, &finite) || !errors.As(err, &task) || finite.Node.Layer.Name != "b" || task.Microbatch != 0 {
			t.Errorf("%d devices: got %v, want layer b in microbatch 0", devices, err)
		}
	}
}

func TestScheduleIsTheFullStepsOne(t *testing.T) {
	r := mustRig(t, gptJob(4), "cpu", 2, "gpipe", residency.ManagerOptions{})
	want := schedule.GPipe(2, 4)
	if got := r.prog.Schedule(); got.String() != want.String() {
		t.Errorf("got\n%v\nwant\n%v", got, want)
	}
	if err := r.run(short(t)); err != nil {
		t.Fatal(err)
	}
	for i, d := range r.rt.Busy() {
		if d <= 0 {
			t.Errorf("device %d was busy for %v", i, d)
		}
	}
}

func TestClosedRuntime(t *testing.T) {
	r := mustRig(t, mlpJob(2), "cpu", 2, "1f1b", residency.ManagerOptions{})
	b, err := r.feed(0, r.batch())
	if err != nil {
		t.Fatal(err)
	}
	ticket, err := r.prog.Step(t.Context(), b)
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := r.rt.Close(); err != nil {
			t.Error(err)
		}
	}
	if err := r.prog.Wait(short(t), ticket); err != nil {
		t.Errorf("the step that Close has waited for: %v", err)
	}
	_, err = r.prog.Step(t.Context(), b)
	_, loadErr := r.rt.Load(executor.LoadOptions{Full: &partition.Plan{Graph: r.prog.Graph()}})
	for _, err := range []error{err, loadErr, r.prog.Init(t.Context(), nil)} {
		if !errors.Is(err, executor.ErrClosed) {
			t.Errorf("got %v, want ErrClosed", err)
		}
	}
}

// A step whose loss is not finite leaves every variable as it was, though
// updates run in the same segment: running statistics, the counter and the
// rings too.
func TestFailedLossChangesNothing(t *testing.T) {
	for name, j := range map[string]job{"mlp": mlpJob(1), "cnn": cnnJob(1), "cnn of 2": cnnJob(2)} {
		for devices := 1; devices <= 3; devices++ {
			r := mustRig(t, j, "cpu", devices, "1f1b", residency.ManagerOptions{})
			step(t, r, r.prog, 0, j.batch())
			before, err := r.vars(short(t))
			if err != nil {
				t.Fatal(err)
			}
			b, err := r.feed(1, j.batch())
			if err != nil {
				t.Fatal(err)
			}
			for i, v := range r.prog.Inputs() {
				if v.Meta.DType == shape.Float32 {
					shape.View[float32](b.Fields[i].Bytes())[2] = float32(math.NaN())
				}
			}
			if _, err = r.prog.Step(short(t), b); err == nil {
				err = r.prog.Drain(short(t))
			}
			if !errors.Is(err, device.ErrNonFinite) {
				t.Fatalf("%s on %d devices: %v", name, devices, err)
			}
			for _, v := range r.prog.Graph().Vars {
				err := r.rt.Residency.Salvage(short(t), r.prog.Var(v.Name), func(now []byte) error {
					if !bytes.Equal(now, before[v.Name]) {
						t.Errorf("%s on %d devices: %s has changed", name, devices, v.Name)
					}
					return nil
				})
				if err != nil {
					t.Error(err)
				}
			}
		}
	}
}
