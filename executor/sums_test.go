package executor_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/berth-ml/berth/engine/device"
	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/engine/shape"
	"github.com/berth-ml/berth/executor/eager"
	"github.com/berth-ml/berth/executor/schedule"
	"github.com/berth-ml/berth/internal/testall"
	"github.com/berth-ml/berth/partition"
	"github.com/berth-ml/berth/residency"
	"github.com/berth-ml/berth/residency/ledger"
)

// Sums by a tree give the same bits with every number of microbatches and stages,
// with every schedule and in little memory: those of a step that is computed op by
// op, with a recursion over the parts of its microbatches.
func TestSameWeightsByATree(t *testing.T) {
	t.Parallel()
	for name, make := range map[string]func(int) job{"mlp": mlpJob, "gpt": gptJob, "cnn": cnnJob} {
		for m := 1; m <= 17; m++ {
			if !sumsWanted(name, m) {
				continue
			}
			t.Run(fmt.Sprintf("%s/%d", name, m), func(t *testing.T) {
				j := make(m)
				j.reduction, j.microbatch = partition.ReduceTree, 2
				j.last = (m*5 + 1) % j.batch()
				want, err := j.opByOp()
				if err != nil {
					t.Fatal(err)
				}
				for i, w := range append(ways(), replicated()...) {
					if j.shard = ""; i%2 > 0 && w.replicas > 0 {
						j.shard = partition.ShardOptimizer
					}
					if i%8 != m%8 { // they take long
						continue
					}
					got, err := w.trained(j)
					if err != nil {
						t.Fatalf("%+v: %v", w, err)
					}
					if d := differ(want, got); d != "" {
						t.Errorf("%+v: %s", w, d)
					}
				}
			})
		}
	}
}

// sumsWanted reports whether a job's sums are tried with that many microbatches: with
// TEST_ALL, those of the smallest job with each number.
func sumsWanted(name string, microbatches int) bool {
	const usual = 7
	switch {
	case !testall.Wanted():
		return name == "mlp" && microbatches == usual
	case testall.Race:
		return microbatches == usual
	}
	return name == "mlp" || microbatches%4 == usual%4
}

// replicated are ways with replicas.
func replicated() []way {
	return []way{
		{devices: 2, threads: 1, replicas: 2, schedule: "1f1b"},
		{devices: 4, threads: 1, replicas: 2, schedule: "gpipe", recompute: partition.RecomputeBlock},
		{devices: 3, threads: 2, replicas: 3, schedule: "1f1b", memory: 40},
		{devices: 4, threads: 1, replicas: 4, schedule: "gpipe", memory: 10},
		{devices: 5, threads: 1, replicas: 2, schedule: "zb-h1", memory: 70},
		{devices: 6, threads: 1, replicas: 3, schedule: "zb-h1"},
		{devices: 4, threads: 1, replicas: 2, schedule: "interleaved", stages: 4},
	}
}

// opByOp trains an epoch as the graph says, node by node, on a device.
func (j job) opByOp() (_ map[string][]byte, err error) {
	devs, err := openDevices("cpu", 1, 1)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, closeAll(devs)) }()
	c, err := eager.New(devs, eager.ContextOptions{})
	if err != nil {
		return nil, err
	}
	e := &opByOp{job: j, Context: c, device: devs[0].ID()}
	defer func() {
		for _, x := range e.made {
			err = errors.Join(err, x.Release())
		}
		err = errors.Join(err, c.Close())
	}()
	for i, samples := range j.epoch() {
		if err := e.step(i, samples); err != nil {
			return nil, err
		}
	}
	return e.contents()
}

// opByOp is a run of a job's graph, node by node.
type opByOp struct {
	job
	*eager.Context
	device device.ID
	vars   map[string]eager.Tensor
	made   []eager.Tensor // all that are to be released
}

// load makes a tensor with these contents.
func (e *opByOp) load(v *graph.Value, data []byte) eager.Tensor {
	return e.keep(e.FromBytes(v.Meta, data, e.device))
}

func (e *opByOp) keep(x eager.Tensor) eager.Tensor {
	e.made = append(e.made, x)
	return x
}

// step takes one step.
func (e *opByOp) step(number, samples int) error {
	whole, err := e.train(e.microbatch, samples)
	if err != nil {
		return err
	}
	if e.vars == nil {
		e.vars = map[string]eager.Tensor{}
		for _, v := range whole.Vars {
			data := make([]byte, v.Meta.Bytes())
			if err := first(v, data); err != nil {
				return err
			}
			e.vars[v.Name] = e.load(v, data)
		}
	}
	last := whole
	if r := samples % e.microbatch; r > 0 {
		if last, err = e.train(r, samples); err != nil {
			return err
		}
	}
	parts := make([][]eager.Tensor, len(whole.Accums))
	var vals map[*graph.Value]eager.Tensor
	for from := 0; from < samples; from += e.microbatch {
		g := whole
		if from+e.microbatch >= samples {
			g = last
		}
		vals = e.feed(g, number, samples, from)
		e.run(g, vals, false)
		for i, a := range g.Accums {
			parts[i] = append(parts[i], vals[a.Part])
		}
	}
	for i, a := range last.Accums {
		vals[a.Sum] = e.sum(a.Add, parts[i])
	}
	e.run(last, vals, true)
	for _, a := range last.Assigns {
		e.vars[a.Var.Name] = vals[a.New]
	}
	return nil
}

// feed is the inputs and variables of the microbatch that begins with a sample.
func (e *opByOp) feed(g *graph.Graph, number, samples, from int) map[*graph.Value]eager.Tensor {
	vals := map[*graph.Value]eager.Tensor{}
	for _, v := range g.Vars {
		vals[v] = e.vars[v.Name]
	}
	for _, v := range g.Inputs {
		data := shape.Bytes([]int32{int32(from)})
		if !v.PerMicrobatch {
			row := v.Meta.Bytes() / int64(v.Meta.Shape[0])
			data = e.rows(v, number, samples)[int64(from)*row:][:v.Meta.Bytes()]
		}
		vals[v] = e.load(v, data)
	}
	return vals
}

// run runs the nodes of the update, or all others.
func (e *opByOp) run(g *graph.Graph, vals map[*graph.Value]eager.Tensor, update bool) {
	for _, n := range g.Nodes {
		if (n.Phase == graph.Update) != update {
			continue
		}
		var in []eager.Tensor
		for _, v := range n.In {
			in = append(in, vals[v].Ref())
		}
		for i, out := range e.Execute(n.Op, in...) {
			vals[n.Out[i]] = e.keep(out)
		}
	}
}

// sum adds parts by a tree, from its root down.
func (e *opByOp) sum(add graph.Op, parts []eager.Tensor) eager.Tensor {
	if len(parts) == 1 {
		return parts[0]
	}
	left := 1
	for 2*left < len(parts) {
		left *= 2
	}
	return e.keep(e.One(add, e.sum(add, parts[:left]).Ref(), e.sum(add, parts[left:]).Ref()))
}

// contents is the bytes of all variables.
func (e *opByOp) contents() (map[string][]byte, error) {
	out := map[string][]byte{}
	for name, x := range e.vars {
		d, err := x.ToHost(context.Background())
		if err != nil {
			return nil, err
		}
		switch data := d.Data().(type) {
		case []float32:
			out[name] = shape.Bytes(data)
		case []int32:
			out[name] = shape.Bytes(data)
		case float32:
			out[name] = shape.Bytes([]float32{data})
		case int32:
			out[name] = shape.Bytes([]int32{data})
		}
	}
	return out, nil
}

// A steady step copies between replicas the sums of each part of its microbatches, and
// the variables that its update writes and other replicas read. Nothing else moves but
// the batch.
func TestReplicasCopySumsAndWeights(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		job
		replicas int
	}{{cnnJob(8), 2}, {broadJob(8), 2}, {broadJob(8), 4}} {
		j := c.job
		j.reduction, j.replicas, j.optim.ClipNorm = partition.ReduceTree, c.replicas, 0
		others := int64(c.replicas - 1)
		r := mustRig(t, j, "cpu", c.replicas, "1f1b", residency.ManagerOptions{})
		want := others * sumsAndWeights(r.prog.Graph())
		if got := r.steadyCopies(t); got != want {
			t.Errorf("%d replicas copy %d bytes in a step, want %d", c.replicas, got, want)
		}
		j.shard = partition.ShardOptimizer
		r = mustRig(t, j, "cpu", c.replicas, "1f1b", residency.ManagerOptions{})
		want += others * 4 // the learning rate
		o, err := j.options(r.devs, "1f1b")
		if err != nil {
			t.Fatal(err)
		}
		launches, err := o.Full.Launches(partition.StepOptions{Microbatches: j.microbatches})
		if err != nil {
			t.Fatal(err)
		}
		made := map[partition.ID]int{} // the new weights of ranges: the device that makes them
		for i := range launches {
			l := &launches[i]
			for _, n := range l.Needs {
				at, known := made[n.ID()]
				if known && n.Mode == partition.Read && at != l.Device {
					want += n.Value.Meta.Bytes() // they are joined elsewhere
				}
				if l.Action().Kind == schedule.Update && n.Mode == partition.Write && !l.Variant.Joins() && n.Value.Meta.Elems() > 1 {
					made[n.ID()] = l.Device
				}
			}
		}
		if got := r.steadyCopies(t); got != want {
			t.Errorf("%d replicas that share the optimizer copy %d bytes in a step, want %d", c.replicas, got, want)
		}
	}
}

// sumsAndWeights is the bytes of all sums, and of the variables that a step writes and
// the next one reads before its update.
func sumsAndWeights(g *graph.Graph) (bytes int64) {
	for _, a := range g.Accums {
		bytes += a.Sum.Meta.Bytes()
	}
	read := map[*graph.Value]bool{}
	for _, n := range g.Nodes {
		for _, v := range n.In {
			read[v] = read[v] || n.Phase != graph.Update
		}
	}
	for _, a := range g.Assigns {
		if read[a.Var] {
			bytes += a.Var.Meta.Bytes()
		}
	}
	return bytes
}

// steadyCopies is the bytes that a step copies between devices. Of all else, only the
// batch may move.
func (r *rig) steadyCopies(t *testing.T) (bytes int64) {
	t.Helper()
	steps := func(n int) (in, peer, out int64) {
		for i := range n {
			step(t, r, r.prog, i, r.batch())
		}
		if err := r.prog.Drain(short(t)); err != nil {
			t.Fatal(err)
		}
		l := r.rt.Residency.Ledger()
		return l.Total(ledger.CopyIn).Bytes, l.Total(ledger.Peer).Bytes, l.Total(ledger.PullBack).Bytes + l.Total(ledger.Spill).Bytes
	}
	const n = 5
	in, peer, out := steps(2)
	inAfter, peerAfter, outAfter := steps(n)
	for _, v := range r.prog.Inputs() {
		in += n * v.Meta.Bytes() * int64(r.microbatches)
	}
	if inAfter != in || outAfter != out {
		t.Errorf("%d bytes came in in addition to the batch, %d went out", inAfter-in, outAfter-out)
	}
	return (peerAfter - peer) / n
}

// A shared optimizer has its state once: each replica about its part.
func TestReplicasShareTheOptimizer(t *testing.T) {
	t.Parallel()
	j := gptJob(4)
	j.reduction, j.replicas, j.shard = partition.ReduceTree, 2, partition.ShardOptimizer
	r := mustRig(t, j, "cpu", 2, "1f1b", residency.ManagerOptions{})
	step(t, r, r.prog, 0, j.batch())
	if err := r.prog.Drain(short(t)); err != nil {
		t.Fatal(err)
	}
	var all int64
	for _, v := range r.prog.Graph().Vars {
		if v.Role == graph.OptState {
			all += v.Meta.Bytes()
		}
	}
	for _, d := range r.devs {
		if has := d.Stats().LiveBy[device.OptState]; has < all*45/100 || has > all*55/100 {
			t.Errorf("%s has %d bytes of the optimizer's %d", d.ID(), has, all)
		}
	}
}
