package infer

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/berth-ml/berth/datasets"
	"github.com/berth-ml/berth/engine/device"
	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/engine/models"
	"github.com/berth-ml/berth/engine/shape"
	"github.com/berth-ml/berth/executor"
	"github.com/berth-ml/berth/executor/feed"
	"github.com/berth-ml/berth/partition"
	"github.com/berth-ml/berth/residency/ledger"
)

// Model is a model and its cut over the devices of a runtime.
type Model struct {
	Spec       models.Spec
	Plan       *partition.Plan // of another graph of the model, which is cut already
	Microbatch int             // most samples computed at a time
	Layer      string          // whose outputs a Predictor gives; "": it gives the model's answers
	Name       string          // of the programs, where a runtime has several for the same work; "": that of the work

	// Adapter names the adapter of Spec among those of the programs of a runtime: see
	// [executor.LoadOptions]. "": there is no other.
	Adapter string

	// Groups are groups of devices that have the model, each whole: by group, the device
	// of each of the plan's stages, an index in Devices. A batch goes to a group that is
	// free. Nil: the plan's own devices are the only group.
	Groups  [][]int
	Devices []device.Spec

	// OpByOp runs each op by itself, and checks that its results are finite: see
	// [executor.LoadOptions].
	OpByOp bool
	// Beside compiles segments while steps run op by op: see [executor.LoadOptions].
	Beside bool

	// Ranks are the processes that have the devices of the groups, which share the batches; nil: this one has all.
	Ranks *Ranks

	// Room reports whether the devices of a plan of a batch have memory for so many
	// batches at once. Then the stages of a group are a pipeline: it has a batch for each
	// of its devices. Nil: they have it for one.
	Room func(p *partition.Plan, batches int) bool
}

// Ranks are processes that go over a part together. Rank 0 has the results.
type Ranks struct {
	Rank int
	Send func(ctx context.Context, b []byte) error           // to rank 0
	Recv func(ctx context.Context, from int, b []byte) error // on rank 0
}

// net names a program of the model.
func (m *Model) net(name string) string {
	if m.Adapter == "" {
		return name
	}
	return name + " of " + m.Adapter
}

// groups is the number of groups.
func (m *Model) groups() int { return max(1, len(m.Groups)) }

// Apart reports whether batches run on several groups, or may run one behind the other.
func (m *Model) Apart() bool {
	return m.Groups != nil || m.Room != nil && len(m.Plan.Devices()) > 1
}

// ahead is the number of batches that a group with a plan has at once.
func (m *Model) ahead(p *partition.Plan) (batches int) {
	for batches = len(p.Devices()); batches > 1 && (m.Room == nil || !m.Room(p, batches)); batches-- {
	}
	return batches
}

// cut cuts a graph for a group of devices.
func (m *Model) cut(g *graph.Graph, group int, stop func() error) (*partition.Plan, error) {
	if m.Groups == nil {
		return partition.Derive(m.Plan, g, partition.DeriveOptions{For: partition.Answers, Stop: stop})
	}
	return partition.Derive(m.Plan, g, partition.DeriveOptions{For: partition.Answers, Devices: m.Devices, On: m.Groups[group], Stop: stop})
}

// Progress is how far a pass over a part has come: where another pass goes on after the
// loss of a device. The zero value is the beginning.
type Progress struct {
	Samples int // that are done, in order
}

// pass goes over a part of the data with one graph of a model.
type pass struct {
	rt    *executor.Runtime
	lanes []feed.Lane // of all groups; fed on the device of the first stage
	names []string    // of the lanes' programs
	group []int       // of each lane
	part  *datasets.Part
	ran   []int // batches, by group
	ranks *Ranks
}

// builder makes the graphs of a pass.
type builder struct {
	build func(z models.Size, program string) (*graph.Graph, error)
	own   bool // those of each program have variables of its own
}

// newPass compiles the programs of a pass.
func newPass(ctx context.Context, rt *executor.Runtime, m Model, part *datasets.Part, o executor.LoadOptions, b builder) (*pass, error) {
	part = part.InBatches(m.Microbatch)
	lanes, err := m.lanes(ctx, part, o, b)
	if err != nil {
		return nil, err
	}
	p := &pass{rt: rt, part: part.AsInputs(), ran: make([]int, m.groups()), ranks: m.Ranks}
	for _, x := range lanes {
		if err := p.addLane(x.program, x.group); err != nil {
			return nil, errors.Join(err, p.close())
		}
	}
	return p, nil
}

// lane is a program for a group of devices.
type lane struct {
	program executor.LoadOptions
	group   int
}

// lanes are the programs of a pass, of the graphs that b makes for a number of
// samples: a full batch, and the rest of the part. All groups share the weights.
func (m Model) lanes(ctx context.Context, part *datasets.Part, o executor.LoadOptions, b builder) (list []lane, err error) {
	o.Net, o.Adapter = m.net(cmp.Or(m.Name, o.Net)), m.Adapter
	o.OpByOp, o.CheckFinite, o.Beside = m.OpByOp, m.OpByOp, m.Beside
	o.LastMicrobatches, o.Stop = 1, func() error { return context.Cause(ctx) }
	var full []*graph.Graph
	var tail *graph.Graph
	first := make([]executor.LoadOptions, m.groups()) // the first program of each group
	ahead := 1
	for n := 0; n < ahead; n++ { // each group has a lane before one has its second: batches go to the first that are free
		for k := range first {
			if n > 0 && n >= m.ahead(first[k].Full) {
				continue
			}
			x, name := first[k], laneName(o.Net, k, n)
			if full == nil || b.own {
				build := func(z models.Size) (*graph.Graph, error) { return b.build(z, name) }
				if full, tail, err = graphsOf(part.InBatches(m.Microbatch), m.Microbatch, o.Stop, build); err != nil {
					return nil, err
				}
			}
			if n == 0 || b.own {
				x = o
				if err := m.plan(&x, k, full, tail); err != nil {
					return nil, err
				}
			}
			if x.Net = name; n == 0 {
				first[k], ahead = x, max(ahead, m.ahead(x.Full))
			}
			list = append(list, lane{x, k})
		}
	}
	return list, nil
}

// graphsOf builds the graphs of a pass over a part: of a full batch of each bucket, or the
// one of a part without buckets, and of the smaller last batch, which is nil if there is
// none.
func graphsOf(part *datasets.Part, microbatch int, stop func() error, build func(models.Size) (*graph.Graph, error)) (full []*graph.Graph, tail *graph.Graph, err error) {
	z := models.Size{Microbatch: min(microbatch, part.Len()), Stop: stop}
	buckets := part.Buckets()
	if buckets == nil {
		buckets = []int{0}
	}
	for _, z.Positions = range buckets {
		g, err := build(z)
		if err != nil {
			return nil, nil, err
		}
		full = append(full, g)
	}
	if z.Microbatch = part.Len() % z.Microbatch; z.Microbatch > 0 {
		tail, err = build(z)
	}
	return full, tail, err
}

// plan cuts the graphs of a pass for a group.
func (m *Model) plan(o *executor.LoadOptions, group int, full []*graph.Graph, tail *graph.Graph) (err error) {
	last := len(full) - 1
	if o.Full, err = m.cut(full[last], group, o.Stop); err != nil {
		return err
	}
	if tail != nil {
		o.Tail, err = partition.Derive(o.Full, tail, partition.DeriveOptions{Stop: o.Stop})
	}
	for i, g := range full[:last] {
		if err != nil {
			return err
		}
		var p *partition.Plan
		p, err = partition.Derive(o.Full, g, partition.DeriveOptions{For: partition.Bucket, Bucket: i + 1, Stop: o.Stop})
		o.Buckets = append(o.Buckets, p)
	}
	if o.Buckets != nil {
		o.Buckets = append(o.Buckets, o.Full)
	}
	return err
}

// laneName names a program: of a pass, for a group and one of the batches that it has at
// once.
func laneName(pass string, group, batch int) string {
	if group > 0 {
		pass = fmt.Sprintf("%s.group%d", pass, group)
	}
	if batch > 0 {
		pass = fmt.Sprintf("%s.ahead%d", pass, batch)
	}
	return pass
}

// addLane loads a program for a group.
func (p *pass) addLane(o executor.LoadOptions, group int) error {
	prog, err := p.rt.Load(o)
	if err != nil {
		return err
	}
	d := o.Full.Stages[0].Device
	p.lanes = append(p.lanes, feed.Lane{Device: p.rt.Devices[d], Program: prog})
	p.names, p.group = append(p.names, o.Net), append(p.group, group)
	return nil
}

// initFrom gives the variables their contents. The first group gets them from the
// host; the others copy them from its devices when they first need them.
func (p *pass) initFrom(ctx context.Context, c executor.Contents) error {
	return p.lanes[0].Program.InitFrom(ctx, c)
}

// close unloads the programs. The weights stay if another program has them.
func (p *pass) close() error {
	var errs []error
	for _, x := range p.lanes {
		errs = append(errs, x.Program.Close())
	}
	return errors.Join(errs...)
}

// user takes the batches of a pass.
type user struct {
	// ended is called when a batch of a lane has ended, before the lane has another one. place is a number that
	// the batch has alone until it is used. Nil: nobody wants to know.
	ended func(lane, place int) error
	// use takes the outputs of the batches in the order of the samples. They are valid until it returns.
	use func(place int, b datasets.Batch, outs [][]float32) error
}

// values runs every sample that is not done once, pulls outputs of each batch back for a
// reason, and hands them to u. It allocates nothing for each batch.
func (p *pass) values(ctx context.Context, done *Progress, why ledger.Reason, names []string, u user) error {
	places := make([][][]float32, feed.Places(len(p.lanes)))
	for i := range places {
		places[i] = make([][]float32, len(names))
	}
	r := feed.Results{
		Collect: func(lane, place int, b datasets.Batch) error {
			p.ran[p.group[lane]]++
			for i, name := range names {
				prog := p.lanes[lane].Program
				of, err := prog.OutputRank(name, b.Samples, b.Bucket)
				if err != nil {
					return err
				}
				if of != p.rank() {
					continue
				}
				out, err := prog.Output(name, b.Samples, b.Bucket)
				if err != nil {
					return err
				}
				if places[place][i], err = p.rt.AppendFloats(ctx, places[place][i][:0], why, out); err != nil {
					return err
				}
				if err := p.rt.Residency.Drop(out); err != nil {
					return err
				}
			}
			if u.ended == nil {
				return nil
			}
			return u.ended(lane, place)
		},
		Done: func(place int, b datasets.Batch) error {
			err := u.use(place, b, places[place])
			if err == nil {
				done.Samples += b.Samples
			}
			return err
		},
	}
	if p.ranks != nil {
		return p.inTurns(ctx, r, places, names)
	}
	return feed.Spread(ctx, p.lanes, p.part, done.Samples, r)
}

// samples is those of a full batch.
func (p *pass) samples() int { return p.lanes[0].Program.Inputs()[0].Meta.Shape[0] }

// rank is this process's.
func (p *pass) rank() int {
	if p.ranks == nil {
		return 0
	}
	return p.ranks.Rank
}

// inTurns is values on several ranks. Only rank 0 uses the outputs: the others send theirs.
func (p *pass) inTurns(ctx context.Context, r feed.Results, places [][][]float32, names []string) error {
	use := r.Done
	r.Done = func(place int, b datasets.Batch) error {
		for i, name := range names {
			if err := p.join(ctx, &places[place][i], place, name, b); err != nil {
				return err
			}
		}
		if p.rank() > 0 {
			return nil
		}
		return use(place, b)
	}
	t := feed.Turns{Lanes: p.lanes, Results: r}
	for _, d := range p.rt.Devices {
		if d != nil && t.Device == nil {
			t.Device = d
		}
	}
	return t.Run(ctx, p.part)
}

// join gives rank 0 an output of a lane's batch, which the rank that has it sends.
func (p *pass) join(ctx context.Context, x *[]float32, lane int, name string, b datasets.Batch) error {
	prog := p.lanes[lane].Program
	of, err := prog.OutputRank(name, b.Samples, b.Bucket)
	switch {
	case err != nil || of == 0:
		return err
	case of == p.rank():
		return p.ranks.Send(ctx, shape.Bytes(*x))
	case p.rank() > 0:
		return nil
	}
	bytes, err := prog.OutputBytes(name, b.Samples, b.Bucket)
	if err != nil {
		return err
	}
	n := int(bytes / 4)
	*x = slices.Grow((*x)[:0], n)[:n]
	return p.ranks.Recv(ctx, of, shape.Bytes(*x))
}

// each runs every sample once, on the one group, and calls done after each
// batch.
func (p *pass) each(ctx context.Context, done func(datasets.Batch) error) error {
	return feed.Each(ctx, p.lanes[0].Device, p.lanes[0].Program, p.part, func(b datasets.Batch) error {
		p.ran[0]++
		return done(b)
	})
}
