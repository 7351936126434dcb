package executor_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/berth-ml/berth/engine/device"
	faults "github.com/berth-ml/berth/engine/device/fault"
	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/engine/ops"
	"github.com/berth-ml/berth/engine/shape"
	"github.com/berth-ml/berth/executor"
	"github.com/berth-ml/berth/partition"
	"github.com/berth-ml/berth/residency"
)

// Loading takes no device memory: programs whose working memory would not fit
// together run one after the other.
func TestLoadTakesNoMemory(t *testing.T) {
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
		plenty := specs(r.devs) // this does not test planning
		plenty[0].MemoryBytes = 1 << 30
		plan, err := partition.New(g, partition.PlanOptions{Devices: plenty, Microbatches: 1})
		if err != nil {
			t.Fatal(err)
		}
		live := r.devs[0].Stats().Live
		p, err := r.rt.Load(executor.LoadOptions{Net: name, Full: plan})
		if err != nil {
			t.Fatal(err)
		}
		if now := r.devs[0].Stats().Live; now != live {
			t.Errorf("loading changed the live bytes from %d to %d", live, now)
		}
		return p
	}
	first, second := load("first", 1<<20), load("second", 3<<18) // temporaries of 4 and 3 MiB, inputs likewise
	in := &goBuffer{make([]byte, 4<<20)}
	for _, p := range []*executor.Program{first, second, first} {
		bytes := p.Inputs()[0].Meta.Bytes()
		if _, err := p.Step(t.Context(), executor.Batch{Samples: 1, Fields: []device.HostBuffer{&goBuffer{in.b[:bytes]}}}); err != nil {
			t.Fatal(err)
		}
		if err := p.Drain(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
}

// besideRig is a job whose segments are compiled while steps run: each waits for a gate,
// and compile says what becomes of it.
func besideRig(t *testing.T, j job, gate *gate, compile func(segment string) error) *rig {
	t.Helper()
	devs, err := openDevices("cpu", 2, 1)
	if err != nil {
		t.Fatal(err)
	}
	devs = faults.Intercept(devs, func(o faults.Operation) faults.Outcome {
		name, segment := strings.CutPrefix(o.What, "compiling ")
		if o.Op != faults.Compile || !segment || strings.Contains(name, " ") { // an op's graph has the op's name, too
			return faults.Outcome{}
		}
		gate.wait()
		return faults.Outcome{Refused: compile(name)}
	})
	j.beside = true
	r, err := newRig(j, devs, "1f1b", residency.ManagerOptions{})
	t.Cleanup(func() {
		if err := r.close(); err != nil {
			t.Error(err)
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// besideJob has a smaller last batch in each epoch.
func besideJob() job {
	j := cnnJob(3)
	j.last = 3
	return j
}

// opsOf counts the launches of ops and of whole segments from now on.
func opsOf(r *rig) (ops, whole *int) {
	ops, whole = new(int), new(int)
	r.rt.OnLaunch(func(x executor.Launched) {
		if x.Call != nil {
			*ops++
		} else {
			*whole++
		}
	})
	return ops, whole
}

// checkVars compares the variables after an epoch with those of a plain run.
func checkVars(t *testing.T, r *rig) {
	t.Helper()
	j := r.job
	j.beside = false
	want, err := plain.trained(j)
	if err != nil {
		t.Fatal(err)
	}
	got, err := r.vars(short(t))
	if err != nil {
		t.Fatal(err)
	}
	if d := differ(want, got); d != "" {
		t.Error(d)
	}
}

// Steps begin op by op, and go on with the executables once they are ready.
func TestSwitchOver(t *testing.T) {
	gate := newGate()
	r := besideRig(t, besideJob(), gate, func(string) error { return nil })
	ops, whole := opsOf(r)
	sizes := r.epoch()
	for i, n := range sizes {
		if i == 3 {
			if *ops == 0 || *whole > 0 || r.prog.CompiledFrom() != 0 {
				t.Errorf("%d ops and %d segments before any is compiled", *ops, *whole)
			}
			gate.open()
			r.prog.AwaitCompiled()
			*ops = 0
		}
		step(t, r, r.prog, i, n)
	}
	if err := r.prog.Drain(short(t)); err != nil {
		t.Fatal(err)
	}
	if *ops > 0 || *whole == 0 || r.prog.CompiledFrom() != 4 {
		t.Errorf("%d ops and %d segments once all are compiled, from step %d on", *ops, *whole, r.prog.CompiledFrom())
	}
	if list := r.rt.Refused(); list != nil {
		t.Error(list)
	}
	if names, err := r.leftovers(); err != nil || len(names) > 0 {
		t.Errorf("left %v; %v", names, err)
	}
	checkVars(t, r)
}

// A segment that cannot be compiled goes on op by op, and the others do not.
func TestRefusedSegment(t *testing.T) {
	gate := newGate()
	gate.open()
	refused := ""
	r := besideRig(t, besideJob(), gate, func(name string) error {
		if refused == "" || name == refused {
			refused = name
			return errBoom
		}
		return nil
	})
	ops, whole := opsOf(r)
	for i, n := range r.epoch() {
		step(t, r, r.prog, i, n)
		r.prog.AwaitCompiled()
	}
	if err := r.prog.Drain(short(t)); err != nil {
		t.Fatal(err)
	}
	list := r.rt.Refused()
	if len(list) == 0 || !errors.Is(list[0], errBoom) || r.rt.Refused() != nil {
		t.Errorf("refused: %v", list)
	}
	if *ops == 0 || *whole == 0 || r.prog.CompiledFrom() > 2 {
		t.Errorf("%d ops and %d segments, from step %d on", *ops, *whole, r.prog.CompiledFrom())
	}
	checkVars(t, r)
}

// A panic while a segment is compiled refuses it.
func TestPanicOfCompilation(t *testing.T) {
	gate := newGate()
	gate.open()
	r := besideRig(t, mlpJob(1), gate, func(string) error { panic("oh") })
	step(t, r, r.prog, 0, r.batch())
	r.prog.AwaitCompiled()
	if err := r.prog.Close(); err != nil { // Refused tells of it all the same
		t.Error(err)
	}
	if list := r.rt.Refused(); len(list) == 0 || !strings.HasPrefix(list[0].Error(), "compiling s0.F on cpu:0 panicked: oh (at ") {
		t.Errorf("refused: %v", list)
	}
}

// Closing while a segment is compiled waits for that one alone.
func TestCloseWhileCompiling(t *testing.T) {
	gate, compiled := newGate(), 0
	r := besideRig(t, besideJob(), gate, func(string) error { compiled++; return nil })
	step(t, r, r.prog, 0, r.batch())
	<-gate.reached
	closed := make(chan error)
	go func() { closed <- r.prog.Close() }()
	for !r.prog.CompilingEnds() { // before, a segment that the gate lets go would be followed by others
		time.Sleep(time.Millisecond)
	}
	select {
	case err := <-closed:
		t.Fatalf("closed within a compilation: %v", err)
	case <-time.After(20 * time.Millisecond):
	}
	gate.open()
	if err := <-closed; err != nil || compiled > 1 {
		t.Errorf("%d segments were compiled; %v", compiled, err)
	}
}

// What Compilations lists is what is compiled.
func TestCompilations(t *testing.T) {
	for _, beside := range []bool{false, true} {
		for _, alone := range []bool{false, true} {
			j := besideJob()
			j.beside, j.alone = beside, alone
			devs, err := openDevices("cpu", 2, 1)
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			devs = faults.Intercept(devs, func(o faults.Operation) faults.Outcome {
				if o.Op == faults.Compile {
					got = append(got, string(o.Device)+" "+o.What)
				}
				return faults.Outcome{}
			})
			r, err := newRig(j, devs, "1f1b", residency.ManagerOptions{})
			if err != nil {
				t.Fatal(err)
			}
			step(t, r, r.prog, 0, j.batch())
			if beside && !alone {
				r.prog.AwaitCompiled()
			}
			o, err := j.options(devs, "1f1b")
			if err != nil {
				t.Fatal(err)
			}
			o.OpByOp, o.CheckFinite, o.Beside = alone, alone, beside
			all, err := o.Compilations(nil, 0)
			if err != nil {
				t.Fatal(err)
			}
			var want []string
			for d, list := range all {
				for _, s := range list {
					want = append(want, string(devs[d].ID())+" compiling "+s.Graph.Name)
				}
			}
			slices.Sort(got)
			slices.Sort(want)
			if !slices.Equal(got, want) {
				t.Errorf("beside %v, alone %v: compiled\n%q, listed\n%q", beside, alone, got, want)
			}
			if c := r.rt.Compiled(); c.Memory+c.Anew != len(want) || c.Disk != 0 {
				t.Errorf("%+v, and %d were listed", c, len(want))
			}
			if err := r.close(); err != nil {
				t.Error(err)
			}
		}
	}
}
