package executor_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	"pgregory.net/rapid"

	"github.com/berth-ml/berth/engine/device"
	faults "github.com/berth-ml/berth/engine/device/fault"
	"github.com/berth-ml/berth/engine/device/gpu/cl"
	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/engine/models"
	"github.com/berth-ml/berth/executor"
	"github.com/berth-ml/berth/executor/ranks"
	"github.com/berth-ml/berth/internal/testall"
	"github.com/berth-ml/berth/partition"
	"github.com/berth-ml/berth/residency"
	"github.com/berth-ml/berth/residency/ledger"
)

// world is a job on ranks, each of which is a goroutine with a runtime of its own.
type world struct {
	job
	devs  []device.Device
	of    []int
	opt   executor.LoadOptions
	links []ranks.Transport
	ranks []*rank
}

// rank is one of a world's.
type rank struct {
	*rig
	world *world
	rank  int
}

// newWorld opens the devices of all ranks and plans for them.
func newWorld(j job, devs []device.Device, of []int, schedule string) (*world, error) {
	w := &world{job: j, devs: devs, of: of}
	w.ofRanks = of
	var err error
	if w.opt, err = w.options(devs, schedule); err != nil {
		return nil, err
	}
	w.opt.OpByOp, w.opt.CheckFinite, w.opt.Beside = j.alone, j.alone, j.beside
	w.links = ranks.NewLoop(slices.Max(of)+1, func(int) {})
	for r := range w.links {
		w.ranks = append(w.ranks, &rank{rig: &rig{job: j, devs: make([]device.Device, len(devs))}, world: w, rank: r})
	}
	return w, nil
}

// all has each rank do something at the same time. One that fails ends the others.
func (w *world) all(f func(r *rank) error) error {
	var g errgroup.Group
	for _, r := range w.ranks {
		g.Go(func() error {
			err := f(r)
			if err != nil {
				r.world.links[r.rank].Abort(1)
			}
			return err
		})
	}
	return g.Wait()
}

// open makes the runtime.
func (r *rank) open() (err error) {
	w := r.world
	o := executor.RuntimeOptions{Used: []int{}, Ranks: &executor.Ranks{Transport: w.links[r.rank], Of: w.of}}
	for i, d := range w.devs {
		if w.of[i] == r.rank {
			o.Used, r.devs[i] = append(o.Used, i), d
		}
	}
	r.rt, err = executor.NewRuntime(r.devs, o)
	return err
}

// load makes the runtime and the program, with first contents of its variables.
func (r *rank) load() (err error) {
	if err := r.open(); err != nil {
		return err
	}
	if r.prog, err = r.rt.Load(r.world.opt); err != nil {
		return err
	}
	for _, v := range r.prog.Graph().Vars {
		if x := r.prog.Var(v.Name); x != nil {
			if err := r.rt.Residency.FillWith(x, func(dst []byte) error { return first(v, dst) }); err != nil {
				return err
			}
		}
	}
	return nil
}

// feed is a batch of which the rank has its own rows alone.
func (r *rank) feed(i, samples int) (executor.Batch, error) {
	b := executor.Batch{Samples: samples, Bucket: i % max(1, len(r.buckets))}
	rows, err := r.prog.Rows(samples, b.Bucket)
	if err != nil {
		return b, err
	}
	own := slices.IndexFunc(r.devs, func(d device.Device) bool { return d != nil })
	g := r.prog.Graph()
	if len(r.buckets) > 0 {
		g = r.world.opt.Buckets[b.Bucket].Graph
	}
	for _, v := range r.prog.Inputs() {
		data := r.rows(v, i, samples)
		hb, err := r.devs[own].AllocHost(int64(len(data)))
		if err != nil {
			return b, err
		}
		at := slices.IndexFunc(g.Inputs, func(in *graph.Value) bool { return in.Name == v.Name })
		each := int(g.Inputs[at].Meta.Bytes()) / g.Inputs[at].Meta.Shape[0]
		for _, x := range rows {
			copy(hb.Bytes()[x.From*each:x.To*each], data[x.From*each:])
		}
		r.bufs = append(r.bufs, hb)
		b.Fields = append(b.Fields, hb)
	}
	return b, nil
}

// run takes the steps of an epoch.
func (r *rank) run(ctx context.Context) error {
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

// vars are the variables that the rank holds for all.
func (r *rank) vars(ctx context.Context) (map[string][]byte, error) {
	out := map[string][]byte{}
	for _, v := range r.prog.Graph().Vars {
		if r.prog.Holder(v.Name) != r.rank {
			continue
		}
		x := r.prog.Var(v.Name)
		if err := r.rt.Residency.PullBack(ctx, ledger.Checkpoint, x); err != nil {
			return nil, err
		}
		b, err := r.rt.Residency.Host(x)
		if err != nil {
			return nil, err
		}
		out[v.Name] = b
	}
	return out, nil
}

// close ends the ranks, which fails if one has something left.
func (w *world) close() error {
	err := w.all(func(r *rank) error {
		var errs []error
		if r.rt != nil {
			errs = append(errs, r.rt.Close())
		}
		for _, hb := range r.bufs {
			errs = append(errs, hb.Free())
		}
		return errors.Join(errs...)
	})
	for _, d := range w.devs {
		if s := d.Stats(); s.Live != s.LiveBy[device.Scratch] {
			err = errors.Join(err, fmt.Errorf("%s has %d bytes left", d.ID(), s.Live))
		}
	}
	return errors.Join(err, closeAll(w.devs))
}

// trained is the variables after an epoch, the ranges of each side by side.
func (w *world) trained() (map[string][]byte, error) {
	return w.trainedBy(func(ctx context.Context, r *rank) error { return r.run(ctx) })
}

// trainedBy is trained where each rank takes the steps in a way.
func (w *world) trainedBy(run func(ctx context.Context, r *rank) error) (map[string][]byte, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	parts := make([]map[string][]byte, len(w.ranks))
	err := w.all(func(r *rank) error {
		err := r.load()
		if err == nil {
			err = run(ctx, r)
		}
		if err == nil {
			parts[r.rank], err = r.vars(ctx)
		}
		return err
	})
	out := map[string][]byte{}
	if err == nil {
		for _, v := range w.ranks[0].prog.Graph().Vars {
			for _, p := range parts {
				out[v.Whole().Name] = append(out[v.Whole().Name], p[v.Name]...)
			}
		}
	}
	return out, errors.Join(err, w.close())
}

// sharedBy trains a job in a way, with its devices dealt to ranks.
func (w way) sharedBy(j job, of []int) (map[string][]byte, error) {
	devs, err := openDevices("cpu", w.devices, w.threads)
	if err != nil {
		return nil, err
	}
	j.apart, j.recompute, j.memory, j.replicas = w.apart, w.recompute, w.memory, max(w.replicas, j.replicas)
	j.stages, j.order, j.alone, j.beside = w.stages, w.order, w.opByOp, w.beside
	if w.order != "" {
		j.replicas = 1
	}
	x, err := newWorld(j, devs, of, w.schedule)
	if err != nil {
		return nil, errors.Join(err, closeAll(devs))
	}
	return x.trained()
}

// link is a transport that counts the bytes which its rank sends.
type link struct {
	ranks.Transport
	mu   sync.Mutex
	sent []int64 // to each rank
}

func (l *link) Send(to int, tag ranks.Tag, b []byte) device.Event {
	l.mu.Lock()
	l.sent[to] += int64(len(b))
	l.mu.Unlock()
	return l.Transport.Send(to, tag, b)
}

// counted has a world's links count.
func (w *world) counted() (links []*link) {
	for i, t := range w.links {
		links = append(links, &link{Transport: t, sent: make([]int64, len(w.links))})
		w.links[i] = links[i]
	}
	return links
}

// mustWorld is a world on devices of a kind, which the test closes at its end.
func mustWorld(t *testing.T, j job, devs []device.Device, of []int, schedule string) *world {
	t.Helper()
	w, err := newWorld(j, devs, of, schedule)
	if err != nil {
		t.Fatal(errors.Join(err, closeAll(devs)))
	}
	return w
}

// dealtJobs are jobs on ranks, each with a device or two.
func dealtJobs() map[string]dealt {
	replicas := func(make func(int) job, microbatches, n int, shard partition.Shard) job {
		j := make(microbatches)
		j.reduction, j.replicas, j.shard = partition.ReduceTree, n, shard
		return j
	}
	return map[string]dealt{
		"two replicas":               {replicas(gptJob, 8, 2, ""), []int{0, 1}},
		"two that share updates":     {replicas(broadJob, 8, 2, partition.ShardOptimizer), []int{0, 1}},
		"four that share updates":    {replicas(broadJob, 8, 4, partition.ShardOptimizer), []int{0, 1, 2, 3}},
		"four replicas on two ranks": {replicas(mlpJob, 8, 4, ""), []int{0, 0, 1, 1}},
		"three replicas, unaligned":  {replicas(cnnJob, 7, 3, ""), []int{0, 1, 2}},
		"stages":                     {gptJob(4), []int{0, 1, 2}},
		"stages, two of a rank":      {gptJob(4), []int{0, 0, 1}},
		"replicas of stages":         {replicas(gptJob, 4, 2, partition.ShardOptimizer), []int{0, 1, 2, 3}},
	}
}

// dealt is a job whose devices are dealt to ranks.
type dealt struct {
	job
	of []int
}

// A step among others sends the bytes that the plan says, each rank to each other one, and a device
// takes the memory that the plan says.
func TestRanksSendWhatThePlanSays(t *testing.T) {
	for name, s := range dealtJobs() {
		t.Run(name, func(t *testing.T) {
			s.estimated = true
			devs, err := openDevices("cpu", len(s.of), 1)
			if err != nil {
				t.Fatal(err)
			}
			w := mustWorld(t, s.job, devs, s.of, "1f1b")
			links := w.counted()
			ctx := short(t)
			before := make([][]int64, len(links))
			err = w.all(func(r *rank) error {
				if err := r.load(); err != nil {
					return err
				}
				for i := range 4 {
					b, err := r.feed(i, r.batch())
					if err != nil {
						return err
					}
					if _, err := r.prog.Step(ctx, b); err != nil {
						return err
					}
					if err := r.prog.Drain(ctx); err != nil {
						return err
					}
					if i == 2 {
						before[r.rank] = slices.Clone(links[r.rank].sent)
					}
				}
				return nil
			})
			if err != nil {
				t.Fatal(err)
			}
			x, err := w.opt.Full.Exchange(partition.StepOptions{Microbatches: s.microbatches}, s.of)
			if err != nil {
				t.Fatal(err)
			}
			for from, want := range x.Bytes() {
				for to, n := range want {
					if got := links[from].sent[to] - before[from][to]; got != n {
						t.Errorf("rank %d sends %d bytes to rank %d, the plan says %d", from, got, to, n)
					}
				}
			}
			for _, f := range w.opt.Full.Memory {
				if d := devs[f.Device]; d.Stats().Peak != f.Peak {
					t.Errorf("%s takes %d bytes, the plan says %d", d.ID(), d.Stats().Peak, f.Peak)
				}
			}
			if err := w.close(); err != nil {
				t.Error(err)
			}
		})
	}
}

// Ranks that share updates each send at most 2.1 n(R-1)/R of n bytes of gradients in a step, and a kilobyte: no rank
// joins a parameter for the others.
func TestRanksThatShareUpdatesSendAlike(t *testing.T) {
	for _, n := range []int{2, 4} {
		j := gptJob(8)
		j.reduction, j.replicas, j.shard = partition.ReduceTree, n, partition.ShardOptimizer
		for _, v := range []int{7, 40000} { // with the latter, updates are in ranges
			gpt := j.spec.Layers
			j.spec.Layers = models.GPT(models.GPTOptions{Vocab: v, Context: 4, Layers: 2, Heads: 2, Width: 8}, graph.Pos{})
			for r := range n {
				j.ofRanks = append(j.ofRanks[:r:r], r)
			}
			devs, err := openDevices("null", n, 1)
			if err != nil {
				t.Fatal(err)
			}
			o, err := j.options(devs, "1f1b")
			if err = errors.Join(err, closeAll(devs)); err != nil {
				t.Fatal(err)
			}
			x, err := o.Full.Exchange(partition.StepOptions{Microbatches: j.microbatches}, j.ofRanks)
			if err != nil {
				t.Fatal(err)
			}
			gradients := int64(0)
			for _, a := range o.Full.Graph.Accums {
				gradients += a.Sum.Meta.Bytes()
			}
			bound := gradients*21*int64(n-1)/int64(10*n) + 1024
			for r, to := range x.Bytes() {
				sent := int64(0)
				for _, b := range to {
					sent += b
				}
				if sent > bound {
					t.Errorf("%d ranks, %d words: rank %d sends %d bytes, and may send %d", n, v, r, sent, bound)
				}
			}
			j.spec.Layers = gpt
		}
	}
}

// A launch that fails on one rank ends all: that rank names it, the others what they waited for, and none hangs.
func TestRankThatFailsEndsAll(t *testing.T) {
	for name, s := range dealtJobs() {
		t.Run(name, func(t *testing.T) {
			for n := 1; n < 200; n = n*3/2 + 1 {
				devs, err := openDevices("cpu", len(s.of), 1)
				if err != nil {
					t.Fatal(err)
				}
				failing := n % len(devs)
				f := &fault{op: faults.Launch, n: n, late: n%2 == 0}
				devs[failing] = withFaults(devs[failing:failing+1], f)[0]
				w := mustWorld(t, s.job, devs, s.of, "1f1b")
				errs := make([]error, len(w.links))
				ctx := short(t)
				_ = w.all(func(r *rank) error {
					if errs[r.rank] = r.load(); errs[r.rank] == nil {
						errs[r.rank] = r.run(ctx)
					}
					return errs[r.rank]
				})
				if !f.fired() {
					n = 200
				}
				for r, err := range errs {
					var task *executor.TaskError
					switch culprit := s.of[failing] == r; {
					case !f.fired() && err != nil, culprit && f.fired() && !errors.Is(err, errBoom):
						t.Errorf("launch %d: rank %d fails with %v", n, r, err)
					case err != nil && (!errors.As(err, &task) || culprit == strings.Contains(task.Task, " of ")):
						t.Errorf("launch %d: rank %d names no task of its own: %v", n, r, err)
					case ctx.Err() != nil:
						t.Fatalf("launch %d: rank %d hangs", n, r)
					}
				}
				if err := w.close(); err != nil && !f.fired() {
					t.Errorf("launch %d: %v", n, err)
				}
			}
		})
	}
}

// Programs on the devices of one rank alone, loaded by all, find the variables that training has written on others,
// also those that no training step reads there.
func TestRanksEvaluateBetweenSteps(t *testing.T) {
	s := dealtJobs()["three replicas, unaligned"] // its model has statistics, which rank 0 updates
	devs, err := openDevices("cpu", len(s.of), 1)
	if err != nil {
		t.Fatal(err)
	}
	w := mustWorld(t, s.job, devs, s.of, "1f1b")
	g, err := models.Predict(s.spec, models.Size{Microbatch: s.microbatch})
	if err != nil {
		t.Fatal(err)
	}
	var plans []*partition.Plan // by rank
	for d := range devs {
		p, err := partition.Derive(w.opt.Full, g, partition.DeriveOptions{For: partition.Answers, Devices: specs(devs), On: []int{d}})
		if err != nil {
			t.Fatal(err)
		}
		plans = append(plans, p)
	}
	const steps = 3
	answers := make([][steps][]byte, len(devs)) // by rank
	ctx := short(t)
	err = w.all(func(r *rank) error {
		if err := r.load(); err != nil {
			return err
		}
		var evals []*executor.Program
		for i, p := range plans {
			x, err := r.rt.Load(executor.LoadOptions{Net: fmt.Sprint("eval", i), Full: p, Constant: r.constant, LastMicrobatches: 1, Fetch: true})
			if err != nil {
				return err
			}
			evals = append(evals, x)
		}
		for i := range steps {
			b, err := r.feed(i, r.batch())
			if err == nil {
				_, err = r.prog.Step(ctx, b)
			}
			for e := 0; e < len(evals) && err == nil; e++ {
				x := &rank{rig: &rig{job: r.job, devs: r.devs, prog: evals[e]}, world: w, rank: r.rank}
				if b, err = x.feed(100, r.microbatch); err == nil {
					r.bufs = append(r.bufs, x.bufs...)
					_, err = evals[e].Step(ctx, b)
				}
				if err != nil || e != r.rank {
					continue
				}
				var out *residency.Tensor
				if out, err = evals[e].Output(g.Outputs[0].Name, r.microbatch, 0); err == nil {
					err = r.rt.Residency.PullBack(ctx, ledger.Fetch, out)
				}
				if err == nil {
					answers[e][i], err = r.rt.Residency.Host(out)
				}
			}
			if err != nil {
				return err
			}
		}
		return r.prog.Drain(ctx)
	})
	if err != nil {
		t.Fatal(err)
	}
	for r := range answers {
		for i := range answers[r] {
			if len(answers[r][i]) == 0 || !bytes.Equal(answers[r][i], answers[0][i]) || i > 0 && bytes.Equal(answers[r][i], answers[r][i-1]) {
				t.Errorf("step %d: rank %d has %x, and rank 0 %x", i, r, answers[r][i], answers[0][i])
			}
		}
	}
	if err := w.close(); err != nil {
		t.Error(err)
	}
}

// A device whose memory the host does not address sends and receives through host memory: with two stages, the
// variables are those of one process with the same devices.
func TestRanksThroughTheHost(t *testing.T) {
	testall.Long(t)
	open := func() (devs []device.Device) {
		for _, kind := range []string{"cpu", cl.Kind} {
			list, err := openDevices(kind, 1, 1)
			if err != nil && kind == cl.Kind {
				testall.NoOpenCL(t, err)
			}
			if err != nil {
				t.Fatal(err)
			}
			devs = append(devs, list...)
		}
		return devs
	}
	for _, beside := range []bool{false, true} {
		j := mlpJob(4)
		j.last, j.beside = 5, beside
		want, err := trained(j, open(), "1f1b", residency.ManagerOptions{})
		if err != nil {
			t.Fatal(err)
		}
		got, err := mustWorld(t, j, open(), []int{0, 1}, "1f1b").trained()
		if err != nil {
			t.Fatal(err)
		}
		if d := differ(want, got); d != "" {
			t.Error(d)
		}
	}
}

// Host memory for messages is what the plan says, in bytes.
func TestRanksTakeTheHostMemoryOfThePlan(t *testing.T) {
	testall.Long(t)
	for name, s := range dealtJobs() {
		t.Run(name, func(t *testing.T) {
			s.last = s.microbatch + 1
			devs, err := openDevices(cl.Kind, len(s.of), 1)
			if err != nil {
				testall.NoOpenCL(t, err)
			}
			w := mustWorld(t, s.job, devs, s.of, "1f1b")
			ctx := short(t)
			err = w.all(func(r *rank) error {
				err := r.load()
				for range 3 {
					if err == nil {
						err = r.run(ctx)
					}
				}
				if err != nil {
					return err
				}
				want, err := w.opt.MessageBytes(specs(devs), s.of, r.rank)
				if got := r.prog.MessageHosts(); err == nil && (got != want || want == 0) {
					err = fmt.Errorf("rank %d has %d bytes of host memory for messages, the plan says %d", r.rank, got, want)
				}
				return err
			})
			if err := errors.Join(err, w.close()); err != nil {
				t.Error(err)
			}
		})
	}
}

// A rank says whom it waits for, and with what.
func TestRankSaysWhatItWaitsFor(t *testing.T) {
	s := dealtJobs()["stages"]
	devs, err := openDevices("cpu", len(s.of), 1)
	if err != nil {
		t.Fatal(err)
	}
	w := mustWorld(t, s.job, devs, s.of, "1f1b")
	ctx := short(t)
	stopped := errors.New("it stops")
	_ = w.all(func(r *rank) error {
		if err := r.load(); err != nil {
			t.Error(err)
			return err
		}
		b, err := r.feed(0, r.batch())
		switch {
		case err != nil || r.rank == 0: // it takes no step
			return err
		}
		if _, err := r.prog.Step(ctx, b); err != nil {
			return err
		}
		for r.rank == 1 && ctx.Err() == nil {
			for _, x := range r.rt.Waits() {
				if x.Rank != 0 { // its receives from rank 2 wait, too, and may be first
					continue
				}
				if x.Step != 1 || !strings.HasPrefix(x.Task, "receive of train/") || time.Since(x.Since) > time.Minute {
					t.Errorf("it waits for %+v", x)
				}
				return stopped
			}
			time.Sleep(time.Millisecond)
		}
		return r.prog.Drain(ctx)
	})
	if ctx.Err() != nil {
		t.Error("no rank says what it waits for")
	}
	if err := w.close(); err != nil {
		t.Log(err)
	}
}

// A step with ranks allocates nothing once two of its size came before.
func TestRanksAllocateNothing(t *testing.T) {
	if testall.Race {
		t.Skip("the race detector allocates")
	}
	s := dealtJobs()["two that share updates"]
	devs, err := openDevices("cpu", len(s.of), 1)
	if err != nil {
		t.Fatal(err)
	}
	w := mustWorld(t, s.job, devs, s.of, "1f1b")
	ctx := context.Background()
	batches := make([]executor.Batch, len(w.ranks))
	one := func(r *rank) error {
		_, err := r.prog.Step(ctx, batches[r.rank])
		r.rt.Residency.Ledger().Step()
		return err
	}
	next := func() error { return w.all(one) }
	err = w.all(func(r *rank) (err error) {
		if err = r.load(); err == nil {
			batches[r.rank], err = r.feed(0, r.batch())
		}
		return err
	})
	for range 20 {
		err = errors.Join(err, next())
	}
	if err != nil {
		t.Fatal(err)
	}
	perStep := func() float64 { return testing.AllocsPerRun(50, func() { err = errors.Join(err, next()) }) }
	idle := testing.AllocsPerRun(50, func() { _ = w.all(func(*rank) error { return nil }) })
	n := perStep()
	for i := 0; i < 20 && n > idle; i++ {
		n = perStep()
	}
	if n > idle {
		t.Errorf("%v allocations a step, and %v without one", n, idle)
	}
	if err := errors.Join(err, w.close()); err != nil {
		t.Error(err)
	}
}

// drawRanks gives each device a rank. Each rank from 0 on has one.
func drawRanks(t *rapid.T, devices int) []int {
	of := make([]int, devices)
	for d := range of {
		of[d] = rapid.IntRange(0, min(d, slices.Max(append(of[:d:d], -1))+1)).Draw(t, "rank")
	}
	return of
}

// Up to eight ranks train random jobs on random cuts, replicas and schedules, and with devices of random sizes, from the floor to
// the peak of each. The variables are those of one process with one device, and a step among others sends the bytes that the plan
// says.
func TestRanksTrainTheSameWithinLimits(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		j := drawJob(t)
		w := rapid.SampledFrom(append(ways(), replicated()...)).Draw(t, "way")
		if n := rapid.IntRange(0, 8).Draw(t, "devices"); n > 0 { // else those of the way
			w.devices, w.threads, w.stages = n, 1, rapid.IntRange(0, n).Draw(t, "stages")
			if w.schedule == "interleaved" {
				w.schedule = "gpipe" // it wants as many stages for each device
			}
		}
		w.memory = 0
		want, err := plain.trained(j)
		if err != nil {
			t.Fatal(err)
		}
		j.replicas = min(j.replicas, w.devices, j.microbatches)
		of := drawRanks(t, w.devices)
		j.ofRanks = of
		if rapid.Bool().Draw(t, "pins") {
			j.drawPins(t, w.devices/max(1, j.replicas))
		}
		limited := rapid.Bool().Draw(t, "limited")
		j, devs, err := w.within(j, func(peak int64) int64 {
			if !limited {
				return peak
			}
			return rapid.Int64Range(64, peak).Draw(t, "limit")
		})
		if err != nil {
			t.Fatal(err)
		}
		x, err := newWorld(j, devs, of, w.schedule)
		if err != nil {
			t.Fatal(errors.Join(err, closeAll(devs)))
		}
		links := x.counted()
		got, sent, err := x.measured(links)
		if err != nil {
			t.Fatal(err)
		}
		if d := differ(want, got); d != "" {
			t.Fatal(d)
		}
		says, err := x.opt.Full.Exchange(partition.StepOptions{Microbatches: j.microbatches}, of)
		if err != nil {
			t.Fatal(err)
		}
		for from, to := range says.Bytes() {
			if j.buckets == nil && !slices.Equal(sent[from], to) { // else the step had other samples
				t.Fatalf("rank %d sends %d bytes, the plan says %d", from, sent[from], to)
			}
		}
	})
}

// measured is trained, and gives the bytes that each rank sent each other one in a full step after another.
func (w *world) measured(links []*link) (vars map[string][]byte, sent [][]int64, err error) {
	at := 2
	if w.last > 0 {
		at = 3
	}
	sent = make([][]int64, len(links))
	vars, err = w.trainedBy(func(ctx context.Context, r *rank) error {
		for i, n := range r.epoch() {
			b, err := r.feed(i, n)
			if err == nil && i == at {
				err = r.prog.Drain(ctx)
				sent[r.rank] = slices.Clone(links[r.rank].sent)
			}
			if err == nil {
				_, err = r.prog.Step(ctx, b)
			}
			if err == nil && i == at {
				err = r.prog.Drain(ctx)
				for to, n := range links[r.rank].sent {
					sent[r.rank][to] = n - sent[r.rank][to]
				}
			}
			if err != nil {
				return err
			}
		}
		return r.prog.Drain(ctx)
	})
	return vars, sent, err
}

// TestRanksTrainTheSame gives the devices of random jobs to random ranks: the variables are
// those of one process with one device.
func TestRanksTrainTheSame(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		j := drawJob(t)
		w := rapid.SampledFrom(append(ways(), replicated()...)).Draw(t, "way")
		if w.replicas > 0 && j.reduction != partition.ReduceTree {
			w.replicas = 1
		}
		w.opByOp, w.beside = rapid.Bool().Draw(t, "op by op"), rapid.Bool().Draw(t, "compiled beside")
		of := drawRanks(t, w.devices)
		want, err := plain.trained(j)
		if err != nil {
			t.Fatal(err)
		}
		got, err := w.sharedBy(j, of)
		if err != nil {
			t.Fatal(err)
		}
		if d := differ(want, got); d != "" {
			t.Fatal(d)
		}
	})
}
