package executor_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	"pgregory.net/rapid"

	"github.com/berth-ml/berth/engine/device"
	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/executor"
	"github.com/berth-ml/berth/executor/ranks"
	"github.com/berth-ml/berth/partition"
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
	var err error
	if w.opt, err = j.options(devs, schedule); err != nil {
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

// load makes the runtime and the program, with first contents of its variables.
func (r *rank) load() (err error) {
	w := r.world
	o := executor.RuntimeOptions{Used: []int{}, Ranks: &executor.Ranks{Transport: w.links[r.rank], Of: w.of}}
	for i, d := range w.devs {
		if w.of[i] == r.rank {
			o.Used, r.devs[i] = append(o.Used, i), d
		}
	}
	if r.rt, err = executor.NewRuntime(r.devs, o); err != nil {
		return err
	}
	if r.prog, err = r.rt.Load(w.opt); err != nil {
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
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	parts := make([]map[string][]byte, len(w.ranks))
	err := w.all(func(r *rank) error {
		err := r.load()
		if err == nil {
			err = r.run(ctx)
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
		of := make([]int, w.devices)
		for d := range of {
			of[d] = rapid.IntRange(0, min(d, slices.Max(append(of[:d:d], -1))+1)).Draw(t, "rank")
		}
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
