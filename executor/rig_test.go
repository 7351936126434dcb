package executor_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"runtime/debug"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
	"pgregory.net/rapid"

	"github.com/berth-ml/berth/engine/device"
	_ "github.com/berth-ml/berth/engine/device/cpu"  // registers itself
	_ "github.com/berth-ml/berth/engine/device/null" // registers itself
	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/engine/models"
	"github.com/berth-ml/berth/engine/ops"
	"github.com/berth-ml/berth/engine/optim"
	"github.com/berth-ml/berth/engine/shape"
	"github.com/berth-ml/berth/executor"
	"github.com/berth-ml/berth/executor/balance"
	orders "github.com/berth-ml/berth/executor/schedule"
	"github.com/berth-ml/berth/internal/testall"
	"github.com/berth-ml/berth/partition"
	"github.com/berth-ml/berth/residency"
	"github.com/berth-ml/berth/residency/ledger"
)

// TestMain spends less time on garbage: tests make many plans and devices, all
// small.
func TestMain(m *testing.M) {
	if name := os.Getenv(rankVariable); name != "" {
		os.Exit(playRank(name))
	}
	debug.SetGCPercent(400)
	testall.Checks(3, testall.Most(100, 25))
	goleak.VerifyTestMain(m)
}

// job is a model, how to train it, and how its batches are cut.
type job struct {
	spec                     models.Spec
	optim                    optim.Spec
	shard                    partition.Shard
	microbatch, microbatches int
	last                     int   // samples in the smaller last batch; 0 for none
	buckets                  []int // positions of samples with different lengths; batch i has bucket i modulo their number
	classes                  int   // bound of integers in inputs and targets
	apart                    bool  // its phases are not merged
	recompute                partition.Recompute
	reduction                partition.Reduction
	replicas                 int       // at most one for each device and microbatch; more than one need a tree
	memory                   int       // percent of the peak that the plan is made for; 0: all it may want
	estimated                bool      // the plan asks the devices for their limits, and for the memory of segments
	stages                   int       // 0: one for each device
	order                    string    // a schedule's text for one replica, in place of a named one
	alone                    bool      // each op runs by itself, and is checked
	beside                   bool      // segments are compiled while steps run
	balanced                 bool      // replicas take microbatches by their speed, which nobody measures, and blocks may move
	slow                     []float64 // by device, for the plan
	ofRanks                  []int     // per device, its rank; nil: one process has all
	pin                      map[string]int
}

func (j job) batch() int { return j.microbatch * j.microbatches }

// small are the jobs that tests of anything but numbers use.
func mlpJob(microbatches int) job {
	return job{
		spec: models.Spec{
			Input: shape.F32(5), Target: shape.I32(), Loss: "cross_entropy", Seed: 3,
			Layers: models.Stack{
				models.Named{Name: "a", Layer: models.Dense{Units: 7, Activation: "tanh"}},
				models.Named{Name: "drop", Block: "a", Layer: models.Dropout{Rate: 0.3}},
				models.Named{Name: "b", Layer: models.Dense{Units: 6, Activation: "gelu_tanh"}},
				models.Named{Name: "c", Layer: models.Dense{Units: 4}},
			},
		},
		optim:      optim.Spec{Name: "momentum", ClipNorm: 0.5, Schedule: ops.LearningRate{Schedule: "constant", Base: 0.1}},
		microbatch: 3, microbatches: microbatches, classes: 4,
	}
}

// broadJob has a weight that is large enough for replicas to update ranges of it.
func broadJob(microbatches int) job {
	j := mlpJob(microbatches)
	j.spec.Input = shape.F32(33)
	j.spec.Layers = models.Stack{models.Named{Name: "a", Layer: models.Dense{Units: 4000, Activation: "tanh"}}, models.Named{Name: "b", Layer: models.Dense{Units: 4}}, models.Named{Name: "c", Layer: models.Dense{Units: 4}}}
	return j
}

func gptJob(microbatches int) job {
	return job{
		spec: models.Spec{
			Input: shape.I32(4), Target: shape.I32(4), Loss: "cross_entropy", Seed: 5,
			Layers: models.GPT(models.GPTOptions{Vocab: 7, Context: 4, Layers: 2, Heads: 2, Width: 8, Dropout: 0.2}, graph.Pos{}),
		},
		optim: optim.Spec{
			Name: "adamw", Keys: optim.Adam{Betas: [2]float64{0.9, 0.99}, Eps: 1e-3, Decay: optim.Decay{WeightDecay: 0.1}}, NoDecay: []string{"norm", "bias"}, ClipNorm: 1,
			Schedule: ops.LearningRate{Schedule: "constant", Base: 0.01},
		},
		microbatch: 2, microbatches: microbatches, classes: 7,
	}
}

func cnnJob(microbatches int) job {
	layers := models.CNN([]int{3}, 3, []int{5}, "tanh", 4, graph.Pos{})
	norm := models.Named{Name: "norm", Block: "conv1", Layer: models.BatchNorm{}}
	return job{
		spec: models.Spec{
			Input: shape.F32(1, 4, 4), Target: shape.I32(), Loss: "cross_entropy", Seed: 9,
			Layers: append(append(layers[:1:1], norm), layers[1:]...),
		},
		optim:      optim.Spec{Name: "nesterov", Keys: optim.Momentum{Momentum: 0.8, Decay: optim.Decay{WeightDecay: 0.01}}, Freeze: []string{"fc1.*"}, Schedule: ops.LearningRate{Schedule: "constant", Base: 0.05}},
		microbatch: 2, microbatches: microbatches, classes: 4,
	}
}

// linesJob has sequences of different lengths, in buckets.
func linesJob(microbatches int) job {
	j := gptJob(microbatches)
	j.buckets, j.spec.Lengths = []int{2, 3, 4}, true
	return j
}

// recurrentLinesJob is linesJob with a loop over positions: each bucket has other nodes.
func recurrentLinesJob(microbatches int) job {
	j := linesJob(microbatches)
	j.spec.Target = shape.I32()
	j.spec.Layers = models.Stack{
		models.Named{Name: "wte", Layer: models.Embedding{Vocab: 7, Width: 5}}, models.Named{Name: "gru", Layer: models.GRU{Units: 4}},
		models.Named{Name: "mean", Layer: models.Mean{Axes: []int{0}}}, models.Named{Name: "out", Layer: models.Dense{Units: 7}},
	}
	return j
}

// loopJob has loops over positions, and one that ends early. Its graph is small: plans take
// most of the time of tests.
func loopJob(microbatches int) job {
	j := gptJob(microbatches)
	j.spec.Input, j.spec.Target = shape.I32(2), shape.I32()
	j.spec.Layers = models.Stack{
		models.Named{Name: "wte", Layer: models.Embedding{Vocab: 7, Width: 5}},
		models.Named{Name: "lstm", Layer: models.LSTM{Units: 4, Last: true}},
		models.Named{Name: "doubled", Layer: doubled{}},
		models.Named{Name: "out", Layer: models.Dense{Units: 7}},
	}
	return j
}

// A doubled layer doubles the products of its weight until the first one is large. It
// does not choose logarithms of 0.
type doubled struct{}

func (doubled) Build(m *models.Builder, x *graph.Value) *graph.Value {
	n := x.Meta.Shape.Dim(-1)
	w := m.Param("weight", []int{n, n}, graph.Init{Kind: graph.Uniform, A: 1})
	y := ops.While(m.Builder, 2, []*graph.Value{x},
		func(b *graph.Builder, c []*graph.Value) *graph.Value {
			first := ops.SliceOf(b, ops.Abs(b, c[0]), []int{0, 0}, []int{1, 1})
			return ops.Less(b, ops.ReshapeTo(b, first), ops.Const(b, shape.F32(), 0.4))
		},
		func(_ *graph.Builder, c []*graph.Value) []*graph.Value {
			return []*graph.Value{ops.ScaleBy(m.Builder, m.MatMul(c[0], w, true), 2)}
		})[0]
	return ops.Cond(m.Builder, ops.Const(m.Builder, shape.F32(), 0),
		func(b *graph.Builder) []*graph.Value { return []*graph.Value{ops.Log(b, ops.Sub(b, y, y))} },
		func(*graph.Builder) []*graph.Value { return []*graph.Value{y} })[0]
}

// drawJob makes a random job.
func drawJob(t *rapid.T) job {
	return drawJobOf(t, mlpJob, gptJob, cnnJob, broadJob, loopJob, briefJob, linesJob, recurrentLinesJob)
}

// drawJobOf makes a random job with one of these models.
func drawJobOf(t *rapid.T, presets ...func(int) job) job {
	make := rapid.SampledFrom(presets).Draw(t, "model")
	j := make(rapid.IntRange(1, 6).Draw(t, "microbatches"))
	j.reduction = rapid.SampledFrom([]partition.Reduction{partition.ReduceOrder, partition.ReduceTree}).Draw(t, "reduction")
	if j.reduction == partition.ReduceTree {
		j.replicas = rapid.IntRange(1, 3).Draw(t, "replicas")
		j.shard = rapid.SampledFrom([]partition.Shard{partition.ShardNone, partition.ShardOptimizer}).Draw(t, "shard")
	}
	j.microbatch = rapid.IntRange(1, 3).Draw(t, "microbatch")
	j.last = rapid.IntRange(0, j.batch()-1).Draw(t, "last")
	if j.buckets != nil {
		j.last = 0
	}
	j.spec.Seed = rapid.Uint64Range(1, 1000).Draw(t, "seed")
	j.optim.Name = rapid.SampledFrom([]string{"sgd", "momentum", "nesterov", "adam", "adamw", "lion"}).Draw(t, "optimizer")
	adam := optim.Adam{Betas: [2]float64{0.9, 0.99}, Eps: 1e-3, Decay: optim.Decay{WeightDecay: 0.1}}
	j.optim.Keys = map[string]any{"adam": adam, "adamw": adam}[j.optim.Name] // the defaults of others
	j.optim.ClipNorm = rapid.SampledFrom([]float64{0, 0.3}).Draw(t, "clip")
	j.optim.EMA = rapid.SampledFrom([]float64{0, 0.9}).Draw(t, "average")
	if rapid.Bool().Draw(t, "deep") {
		deep := models.Named{Name: "skip", Layer: models.Residual{Layers: models.Stack{models.Named{Name: "ln", Layer: models.LayerNorm{}}, models.Named{Name: "dr", Layer: models.Dropout{Rate: 0.2}}}}}
		j.spec.Layers = append(append(j.spec.Layers[:1:1], deep), j.spec.Layers[1:]...)
	}
	return j
}

// train is the graph of a step of that many samples in microbatches of a size.
func (j job) train(microbatch, samples int) (*graph.Graph, error) {
	return models.Train(j.spec, j.optim, models.Size{Microbatch: microbatch, Microbatches: j.microbatches, Batch: samples, Ring: 4})
}

// tail is the size of the last batch's last microbatch.
func (j job) tail() int { return (j.last+j.microbatch-1)%j.microbatch + 1 }

// plans are those that tests have made, by job and devices.
var plans sync.Map

// options plans the job for devices, once for all tests.
func (j job) options(devs []device.Device, schedule string) (executor.LoadOptions, error) {
	key := fmt.Sprintf("%+v %+v %s", j, specs(devs), schedule)
	if j.estimated {
		return j.plan(devs, schedule)
	}
	made, ok := plans.Load(key)
	if !ok {
		o, err := j.plan(devs, schedule)
		if err != nil {
			return o, err
		}
		made, _ = plans.LoadOrStore(key, o)
	}
	return made.(executor.LoadOptions), nil
}

func (j job) plan(devs []device.Device, schedule string) (executor.LoadOptions, error) {
	o := executor.LoadOptions{Net: "train", Constant: j.constant, LastMicrobatches: 1}
	g, err := j.train(j.microbatch, j.batch())
	if err != nil {
		return o, err
	}
	po := partition.PlanOptions{Devices: specs(devs), Microbatches: j.microbatches, LastMicrobatches: (j.last + j.microbatch - 1) / j.microbatch, Schedule: schedule, Count: j.stages, Apart: j.apart, Recompute: j.recompute, Reduction: j.reduction, Replicas: min(j.replicas, len(devs), j.microbatches), Shard: j.shard, Ranks: j.ofRanks, Slow: j.slow, Pin: j.pin}
	if j.order != "" {
		order, err := orders.Read(j.order)
		if err != nil {
			return o, err
		}
		po.Order = &order
	}
	if j.estimated {
		for i, d := range devs {
			po.Devices[i] = d.Spec()
		}
		po.Estimate = func(d int, g *graph.Graph, o device.CompileOptions) (device.Memory, error) {
			return devs[d].Estimate(g, o)
		}
	}
	if o.Full, err = j.cut(g, po); err == nil && j.buckets != nil {
		err = j.addBuckets(&o)
	}
	if err != nil || j.last == 0 {
		return o, err
	}
	if g, err = j.train(j.tail(), j.last); err != nil {
		return o, err
	}
	o.LastMicrobatches = (j.last + j.microbatch - 1) / j.microbatch
	o.Tail, err = partition.Derive(o.Full, g, partition.DeriveOptions{})
	return o, err
}

// addBuckets plans for the buckets.
func (j job) addBuckets(o *executor.LoadOptions) error {
	for i, positions := range j.buckets[:len(j.buckets)-1] {
		g, err := models.Train(j.spec, j.optim, models.Size{Microbatch: j.microbatch, Microbatches: j.microbatches, Batch: j.batch(), Ring: 4, Positions: positions})
		if err != nil {
			return err
		}
		p, err := partition.Derive(o.Full, g, partition.DeriveOptions{For: partition.Bucket, Bucket: i + 1, Stop: nil})
		if err != nil {
			return err
		}
		o.Buckets = append(o.Buckets, p)
	}
	o.Buckets = append(o.Buckets, o.Full)
	return nil
}

// cut plans for so little memory that segments are cut finely: for j.memory percent of the
// peaks, or the floor of a device where that is larger.
func (j job) cut(g *graph.Graph, o partition.PlanOptions) (*partition.Plan, error) {
	p, err := partition.New(g, o)
	if err != nil || j.memory == 0 {
		return p, err
	}
	for i, f := range p.Memory {
		o.Devices[i].MemoryBytes = 1 + f.Peak*int64(j.memory)/100
	}
	for {
		var small *partition.MemoryError
		if p, err = partition.New(g, o); !errors.As(err, &small) {
			return p, err
		}
		o.Devices[small.Device].MemoryBytes = small.Floor
	}
}

func (j job) constant(_ *graph.Value, microbatch int) []byte {
	return shape.Bytes([]int32{int32(microbatch * j.microbatch)})
}

// memory is the bytes of a device of a test that is not about memory.
const memory = 16 << 20

// specs describes devices for plans, with plenty of memory: tests of little
// memory are about running in it.
func specs(devs []device.Device) (s []device.Spec) {
	for _, d := range devs {
		spec := d.Spec()
		spec.MemoryBytes = memory
		s = append(s, spec)
	}
	return s
}

// rows is a batch's contents for one input.
func (j job) rows(v *graph.Value, batch, samples int) []byte {
	r := rand.New(rand.NewPCG(uint64(batch), uint64(len(v.Name))))
	n := samples * v.Meta.Elems() / v.Meta.Shape[0]
	if v.Meta.DType == shape.Int32 {
		x := make([]int32, n)
		for i := range x {
			if x[i] = int32(r.IntN(j.classes)); v.Name == models.LengthName {
				x[i] = 1 + x[i]%4
			}
		}
		return shape.Bytes(x)
	}
	x := make([]float32, n)
	for i := range x {
		x[i] = float32(r.NormFloat64())
	}
	return shape.Bytes(x)
}

// rig is a job on devices.
type rig struct {
	job
	devs []device.Device
	rt   *executor.Runtime
	prog *executor.Program
	bufs []device.HostBuffer
}

// openDevices opens devices of a kind for a job, each with threads. A machine may have one OpenCL device for all.
func openDevices(kind string, count, threads int) ([]device.Device, error) {
	return device.Open(kind, device.OpenOptions{Count: count, Threads: count * threads, MemoryBytes: memory, Shared: true})
}

// openSized opens cpu devices, each with threads and bytes of its own.
func openSized(bytes []int64, threads int) ([]device.Device, error) {
	o := device.OpenOptions{Count: len(bytes)}
	for _, n := range bytes {
		o.Each = append(o.Each, device.Share{Threads: threads, MemoryBytes: n})
	}
	return device.Open("cpu", o)
}

// newRig loads the job, with its variables' first contents.
func newRig(j job, devs []device.Device, schedule string, o residency.ManagerOptions) (*rig, error) {
	return newRigWith(j, devs, schedule, executor.RuntimeOptions{Manager: o})
}

// newRigWith is newRig with options of the tenant, too.
func newRigWith(j job, devs []device.Device, schedule string, o executor.RuntimeOptions) (*rig, error) {
	r := &rig{job: j, devs: devs}
	opt, err := j.options(devs, schedule)
	if err != nil {
		return r, err
	}
	opt.OpByOp, opt.CheckFinite, opt.Beside = j.alone, j.alone, j.beside
	if j.balanced {
		opt.Balance = &executor.Balance{Clock: &balance.Clock{}, Stages: true}
	}
	if r.rt, err = executor.NewRuntime(devs, o); err != nil {
		return r, err
	}
	if r.prog, err = r.rt.Load(opt); err != nil {
		return r, err
	}
	return r, r.fill()
}

// onHost pulls a tensor back and reads it.
func onHost(ctx context.Context, rt *executor.Runtime, t *residency.Tensor) ([]byte, error) {
	if err := rt.Residency.PullBack(ctx, ledger.Epoch, t); err != nil {
		return nil, err
	}
	return rt.Residency.Host(t)
}

// fill gives the variables their first contents, to be copied in when a task
// needs them.
func (r *rig) fill() error {
	for _, v := range r.prog.Graph().Vars {
		if err := r.rt.Residency.FillWith(r.prog.Var(v.Name), func(dst []byte) error { return first(v, dst) }); err != nil {
			return err
		}
	}
	return nil
}

// first is a variable's first contents.
func first(v *graph.Value, dst []byte) error {
	models.Fill(v, 11, dst)
	return nil
}

// mustRig is a rig that the test closes at its end.
func mustRig(t *testing.T, j job, kind string, count int, schedule string, o residency.ManagerOptions) *rig {
	t.Helper()
	return mustRigWith(t, j, kind, count, schedule, executor.RuntimeOptions{Manager: o})
}

// mustRigWith is mustRig with options of the tenant, too.
func mustRigWith(t *testing.T, j job, kind string, count int, schedule string, o executor.RuntimeOptions) *rig {
	t.Helper()
	devs, err := openDevices(kind, count, 1)
	if err != nil {
		t.Fatal(err)
	}
	r, err := newRigWith(j, devs, schedule, o)
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

// feed puts batch number i, of that many samples, into fresh buffers.
func (r *rig) feed(i, samples int) (executor.Batch, error) {
	b := executor.Batch{Samples: samples, Bucket: i % max(1, len(r.buckets))}
	for _, v := range r.prog.Inputs() {
		data := r.rows(v, i, samples)
		hb, err := r.devs[0].AllocHost(int64(len(data)))
		if err != nil {
			return b, err
		}
		copy(hb.Bytes(), data)
		r.bufs = append(r.bufs, hb)
		b.Fields = append(b.Fields, hb)
	}
	return b, nil
}

// epoch is the sizes of an epoch's batches: full ones with smaller ones among
// them, so that every change of size is met.
func (j job) epoch() []int {
	if j.last == 0 {
		return []int{j.batch(), j.batch(), j.batch()}
	}
	return []int{j.batch(), j.last, j.batch(), j.batch(), j.last, j.last}
}

// run takes the steps of an epoch.
func (r *rig) run(ctx context.Context) error {
	for i, n := range r.epoch() {
		b, err := r.feed(i, n)
		if err != nil {
			return err
		}
		if _, err := r.prog.Step(ctx, b); err != nil {
			return err
		}
	}
	return r.prog.Drain(ctx)
}

// vars brings every variable out; the ranges of one side by side.
func (r *rig) vars(ctx context.Context) (map[string][]byte, error) {
	out := map[string][]byte{}
	for _, v := range r.prog.Graph().Vars {
		x := r.prog.Var(v.Name)
		if err := r.rt.Residency.PullBack(ctx, ledger.Checkpoint, x); err != nil {
			return nil, err
		}
		if err := r.rt.Residency.View(x, func(b []byte) error { whole := v.Whole().Name; out[whole] = append(out[whole], b...); return nil }); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// leftovers lists the tensors of past steps, other than variables and constants.
func (r *rig) leftovers() (names []string, err error) {
	o, err := r.options(r.devs, "1f1b")
	if err != nil {
		return nil, err
	}
	for _, plan := range []*partition.Plan{o.Full, o.Tail} {
		for i := 0; plan != nil && i < len(plan.Segments); i++ {
			v := plan.Segments[i].Later
			for _, s := range append(v.In[:len(v.In):len(v.In)], v.Out...) {
				for k := range r.microbatches {
					key := residency.Key{Net: "train", Value: s.Value.Name, Microbatch: k}
					if s.Value.Kind == graph.Variable || s.Value.PerMicrobatch || k > 0 && !plan.PerMicrobatch(s.Value) && s.Value.Kind != graph.Summed {
						continue
					}
					if plan == o.Tail && plan.PerMicrobatch(s.Value) {
						key.Net += ".tail"
					}
					x, err := r.rt.Residency.Declare(key, s.Value.Meta, plan.Usage(s.Value))
					if err != nil {
						return nil, err
					}
					if at := x.Location(); at != "nowhere" {
						names = append(names, x.Name()+" at "+at)
					}
				}
			}
		}
	}
	return names, nil
}

// close frees everything and fails if something was left.
func (r *rig) close() error {
	var errs []error
	if r.rt != nil {
		errs = append(errs, r.rt.Close())
	}
	for _, d := range r.devs {
		s := d.Stats()
		if left := s.Live - s.LiveBy[device.Scratch]; left != 0 {
			errs = append(errs, fmt.Errorf("%s has %d bytes left", d.ID(), left))
		}
	}
	for _, hb := range r.bufs {
		errs = append(errs, hb.Free())
	}
	for _, d := range r.devs {
		errs = append(errs, d.Close())
	}
	return errors.Join(errs...)
}

// trained is the variables after an epoch.
func trained(j job, devs []device.Device, schedule string, o residency.ManagerOptions) (map[string][]byte, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	r, err := newRig(j, devs, schedule, o)
	if err == nil {
		err = r.run(ctx)
	}
	var vars map[string][]byte
	if err == nil {
		vars, err = r.vars(ctx)
	}
	return vars, errors.Join(err, r.close())
}

// differ names a variable, of the first map, that is not the same.
func differ(want, got map[string][]byte) string {
	for name, b := range want {
		if !bytes.Equal(b, got[name]) {
			return fmt.Sprintf("%s is % x, want % x", name, got[name], b)
		}
	}
	return ""
}

// short is a context that no test should need the whole of.
func short(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	t.Cleanup(cancel)
	return ctx
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

// faultJob has few operations of every kind.
func faultJob() job {
	j := mlpJob(3)
	j.last, j.reduction = 4, partition.ReduceTree
	return j
}
