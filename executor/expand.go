package executor

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/berth-ml/berth/engine/device"
	"github.com/berth-ml/berth/engine/device/host"
	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/executor/calls"
	"github.com/berth-ml/berth/executor/schedule"
	"github.com/berth-ml/berth/internal/stop"
	"github.com/berth-ml/berth/internal/units"
	"github.com/berth-ml/berth/partition"
	"github.com/berth-ml/berth/residency"
	"github.com/berth-ml/berth/residency/ledger"
)

// task is one launch of a step: a segment for a microbatch, or one op of it. Only lease, in, out
// and events change from step to step.
type task struct {
	name       string   // "s0.F2"; of an op, "s0.F2/fc1.matmul"; of a message, "receive of act/x#2"
	message    *message // nil for a launch; otherwise all that is of launches is zero
	updates    bool     // it writes variables
	microbatch int
	action     schedule.Action // of the step's schedule, which the task is a part of
	kinds      []schedule.Kind // the passes that it runs
	dev        int             // index in Runtime.Devices
	device     device.ID
	exe        device.Executable
	call       *calls.Call // the op; nil for a whole segment
	needs      []residency.Need
	scratch    int64 // bytes that exe needs in addition
	inNeed     []int // per input of the executable, its index in needs
	outNeed    []int
	in, out    []device.Buffer
	lease      residency.Lease
	drops      []*residency.Tensor
	events     [ahead]device.Event // of the last steps that ran it
	pass       *passKind           // of balancing; nil: it is no pass, or the shares stay
}

// stepSize is a size of steps.
type stepSize struct {
	full         *partition.Plan // of a full microbatch
	bucket       int             // [Batch.Bucket]
	microbatches int
	tail         *partition.Plan // of the last microbatch and the update; nil: they are full's
}

// last is the plan of the last microbatch.
func (s *stepSize) last() *partition.Plan { return cmp.Or(s.tail, s.full) }

// expansion is all that a program needs to queue a step of one size: its tasks, in the order in
// which they are queued. It is made when the program is loaded, so that a step only walks it.
type expansion struct {
	stepSize
	net      string // LoadOptions.Net of the program
	schedule schedule.Schedule
	samples  int
	tasks    []*task
	feeds    []feed
	bytes    []int64             // of a batch, per field
	uses     *residency.Uses     // of all tasks, in order
	passing  []*residency.Tensor // not used after the step
	exchange *partition.Exchange // nil: there is one process
	stale    []*residency.Tensor // other ranks write them before this one does anything
	rows     []Rows
	kinds    []*passKind // of passes, as balancing measures them
}

// feed is one input of one microbatch of an expansion: rows of a batch's field.
type feed struct {
	field       int
	from, bytes int64 // in the field
	tensor      *residency.Tensor
	views       [ahead]device.HostView // of the last steps' batches
}

// expand prepares the tasks and feeds of a step.
func (p *Program) expand(l *listed) error {
	err := roomFor(len(l.launches), l.microbatches, "launches")
	if err != nil {
		return err
	}
	ops, err := p.countOps(l.launches)
	if err = cmp.Or(err, roomFor(ops, l.microbatches, "ops")); err != nil {
		return err
	}
	e := &expansion{net: p.opt.Net, stepSize: l.stepSize, exchange: l.exchange}
	if e.schedule, err = l.full.ScheduleOf(l.microbatches); err != nil {
		return err
	}
	fed, err := p.addTasks(e, l)
	if err != nil {
		return err
	}
	if err := p.addFeeds(e, fed); err != nil {
		return err
	}
	p.addUses(e)
	p.sizes = append(p.sizes, e)
	return p.stop.Err()
}

// addTasks makes the tasks of this rank. fed are the inputs that they read.
func (p *Program) addTasks(e *expansion, l *listed) (fed map[partition.ID]bool, err error) {
	fed = map[partition.ID]bool{}
	next := 0
	for i := range l.launches {
		x := &l.launches[i]
		if l.exchange != nil {
			if next, err = p.addMessages(e, l, i, next); err != nil {
				return nil, err
			}
		}
		if !p.rt.exchange.owns(x.Device) {
			if err := p.dropAfter(e, l.drops[i]); err != nil {
				return nil, err
			}
			continue
		}
		tasks, err := p.tasks(x)
		if err != nil {
			return nil, err
		}
		e.tasks = append(e.tasks, tasks...)
		for _, n := range x.Needs {
			if n.Value.Kind == graph.Input && !n.Value.PerMicrobatch {
				fed[n.ID()] = true
			}
		}
	}
	return fed, nil
}

// dropAfter has tensors dropped that a launch of another rank ends, or writes. It comes after the tasks
// so far.
func (p *Program) dropAfter(e *expansion, over []partition.Instance) error {
	for _, i := range over {
		x, err := p.tensor(i)
		if err != nil {
			return err
		}
		if n := len(e.tasks); n > 0 {
			e.tasks[n-1].drops = append(e.tasks[n-1].drops, x)
		} else {
			e.stale = append(e.stale, x)
		}
	}
	return nil
}

// countOps is the number of tasks of launches that run op by op.
func (p *Program) countOps(launches []partition.Launch) (ops int, err error) {
	for i := range stop.Each(p.stop, launches) {
		if l := &launches[i]; p.rt.exchange.owns(l.Device) && p.runsOps(l) {
			on, err := p.callsOf(l)
			if err != nil {
				return 0, err
			}
			ops += len(on.calls)
		}
	}
	return ops, nil
}

// taskBytes is about the host memory that a task, its tensors and uses take.
const taskBytes = 5 << 10

// available is host.Available, unless a test has another number of free bytes.
var available = host.Available

// roomFor refuses a step of so many tasks, which are launches or ops, that the host has
// no memory for them.
func roomFor(tasks, microbatches int, what string) error {
	need := int64(tasks) * taskBytes
	if need < 64<<20 { // not worth the question
		return nil
	}
	free, err := available()
	if err != nil || need <= free {
		return nil // where it is not known, the system decides
	}
	takes, there := units.TwoBytes(need, free)
	return fmt.Errorf("%w: a step of %s has %s %s, which take about %s of host memory, and %s is free: use fewer, larger microbatches", ErrLaunches, units.Count(microbatches, "microbatch"), units.Thousands(tasks), what, takes, there)
}

// runsOps reports whether a launch runs op by op.
func (p *Program) runsOps(l *partition.Launch) bool {
	return p.opt.OpByOp || p.beside != nil && p.exes[compiled{l.Variant, l.Device}] == nil
}

// tasks makes the tasks of a launch: one, or one for each op.
func (p *Program) tasks(l *partition.Launch) ([]*task, error) {
	if p.runsOps(l) {
		if list, err := p.opTasks(l); err != nil || len(list) > 0 {
			return list, err
		}
	}
	t, err := p.task(l)
	return []*task{t}, err
}

// task compiles a launch and declares its tensors.
func (p *Program) task(l *partition.Launch) (*task, error) {
	if err := p.stop.Err(); err != nil {
		return nil, err
	}
	x, err := p.executable(l)
	if err != nil {
		return nil, err
	}
	t := &task{
		name: l.Name(), microbatch: l.Microbatch, action: l.Action(), kinds: l.Kinds(),
		dev: l.Device, device: p.rt.Devices[l.Device].ID(), exe: x, scratch: x.Memory().Temporary,
		inNeed: l.In, outNeed: l.Out, in: make([]device.Buffer, len(l.In)), out: make([]device.Buffer, len(l.Out)),
		needs: make([]residency.Need, 0, len(l.Needs)),
	}
	for _, n := range stop.Each(p.stop, l.Needs) {
		x, err := p.tensor(n.Instance)
		if err != nil {
			return nil, err
		}
		t.updates = t.updates || n.Mode != partition.Read && p.lasting[x]
		t.needs = append(t.needs, residency.Need{Tensor: x, Device: p.rt.on[t.dev].index, Mode: modeOf(n.Mode)})
	}
	for _, k := range stop.Each(p.stop, l.Over) {
		x, err := p.tensor(l.Needs[k].Instance)
		if err != nil {
			return nil, err
		}
		t.drops = append(t.drops, x)
	}
	return t, nil
}

// executable compiles the variant of a launch. A device compiles equal
// signatures once.
func (p *Program) executable(l *partition.Launch) (device.Executable, error) {
	k := compiled{l.Variant, l.Device}
	if x := p.exes[k]; x != nil {
		return x, nil
	}
	on := p.rt.Devices[l.Device]
	x, err := p.rt.compiler.compile(on, p.opt.segment(l.Variant))
	if err != nil {
		return nil, fmt.Errorf("%s on %s: %w", l.Segment.Name, on.ID(), err)
	}
	p.exes[k] = x
	return x, nil
}

func modeOf(m partition.Mode) residency.Mode {
	switch m {
	case partition.Write:
		return residency.Write
	case partition.ReadWrite:
		return residency.ReadWrite
	}
	return residency.Read
}

// addFeeds cuts a batch into microbatches, of which this rank is fed what its tasks read.
func (p *Program) addFeeds(e *expansion, fed map[partition.ID]bool) error {
	e.bytes = make([]int64, len(p.inputs))
	for k := range e.microbatches {
		if p.stop.Done() {
			return p.stop.Err()
		}
		tail := e.tail != nil && k == e.microbatches-1
		plan := e.full
		if tail {
			plan = e.tail
		}
		in, samples := fedInputs(plan.Graph), Rows{e.samples, e.samples}
		for i, v := range in {
			if x := plan.Instance(v, k, tail); p.rt.exchange == nil || fed[x.ID()] {
				t, err := p.tensor(x)
				if err != nil {
					return err
				}
				e.feeds = append(e.feeds, feed{field: i, from: e.bytes[i], bytes: v.Meta.Bytes(), tensor: t})
				samples.To = e.samples + v.Meta.Shape[0]
			}
			e.bytes[i] += v.Meta.Bytes()
		}
		e.samples += in[0].Meta.Shape[0]
		e.addRows(samples)
	}
	return nil
}

// addRows adds samples that are fed, after those so far.
func (e *expansion) addRows(r Rows) {
	switch n := len(e.rows); {
	case r.From == r.To:
	case n > 0 && e.rows[n-1].To == r.From:
		e.rows[n-1].To = r.To
	default:
		e.rows = append(e.rows, r)
	}
}

// addUses tells residency the tensors that the tasks use, and lists the ones that
// no later step uses.
func (p *Program) addUses(e *expansion) {
	seen := map[*residency.Tensor]bool{}
	var launches []residency.Launch
	for _, t := range e.tasks {
		if t.message == nil {
			launches = append(launches, residency.Launch{Needs: t.needs, Scratch: t.scratch, Frees: t.drops})
		} else if n := len(launches); n > 0 && len(t.drops) > 0 { // residency knows the launches alone
			launches[n-1].Frees = slices.Concat(launches[n-1].Frees, t.drops)
		}
		for _, n := range stop.Each(p.stop, t.needs) {
			if !seen[n.Tensor] && !p.lasting[n.Tensor] {
				seen[n.Tensor] = true
				e.passing = append(e.passing, n.Tensor)
			}
		}
	}
	e.uses = p.rt.Residency.NewUses(launches)
}

// Output is the tensor of a graph's output for the last microbatch of a step of
// that many samples of a bucket (see [Batch]). LoadOptions.Fetch must be set. The next
// step overwrites it.
func (p *Program) Output(name string, samples, bucket int) (*residency.Tensor, error) {
	e, v, err := p.output(name, samples, bucket)
	if err != nil {
		return nil, err
	}
	i := e.last().Instance(v, e.microbatches-1, e.tail != nil)
	if _, t := p.known(i); t == nil && p.rt.exchange != nil {
		return nil, fmt.Errorf("the output %q of %s is on another rank", name, p.Graph().Name)
	}
	return p.tensor(i)
}

// Fetch waits for outputs of the newest step and copies them to the host, all before it waits for one: those named, or
// without names all that this rank has. They are of the step's last microbatch, by name. The ledger counts the bytes as
// fetch. LoadOptions.Fetch must be set.
func (p *Program) Fetch(ctx context.Context, names ...string) (map[string][]byte, error) {
	if err := p.usable(); err != nil {
		return nil, err
	}
	e := p.latest
	if e == nil {
		return nil, fmt.Errorf("%s has no outputs yet: take a step first", p.Graph().Name)
	}
	all := len(names) == 0
	for _, v := range e.last().Graph.Outputs {
		if all {
			names = append(names, v.Name)
		}
	}
	var have []string
	var list []*residency.Tensor
	for _, name := range names {
		if of, err := p.OutputRank(name, e.samples, e.bucket); err != nil {
			return nil, err
		} else if all && p.rt.exchange != nil && of != p.rt.exchange.rank() {
			continue
		}
		x, err := p.Output(name, e.samples, e.bucket)
		if err != nil {
			return nil, err
		}
		have, list = append(have, name), append(list, x)
	}
	if err := p.rt.Residency.PullBack(ctx, ledger.Fetch, list...); err != nil {
		return nil, err
	}
	out := make(map[string][]byte, len(list))
	for i, x := range list {
		b, err := p.rt.Residency.Host(x)
		if err != nil {
			return nil, err
		}
		out[have[i]] = b
	}
	return out, nil
}

// OutputBytes is the size of an Output, which may be on another rank.
func (p *Program) OutputBytes(name string, samples, bucket int) (int64, error) {
	_, v, err := p.output(name, samples, bucket)
	if err != nil {
		return 0, err
	}
	return v.Meta.Bytes(), nil
}

// OutputRank is the rank that has an Output; 0 if there is one process.
func (p *Program) OutputRank(name string, samples, bucket int) (int, error) {
	e, v, err := p.output(name, samples, bucket)
	if err != nil || e.exchange == nil {
		return 0, err
	}
	d := e.exchange.Writer(e.last().Instance(v, e.microbatches-1, e.tail != nil).ID())
	if d < 0 {
		return 0, nil // no launch makes it: all ranks have it
	}
	return p.rt.exchange.Of[d], nil
}

// output finds an output of the last microbatch of a step.
func (p *Program) output(name string, samples, bucket int) (*expansion, *graph.Value, error) {
	e, err := p.sized(samples, bucket)
	if err != nil {
		return nil, nil, err
	}
	for _, v := range e.last().Graph.Outputs {
		if v.Name == name && p.opt.Fetch {
			return e, v, nil
		}
	}
	return nil, nil, fmt.Errorf("%s has no output %q that is kept: set LoadOptions.Fetch when loading it, and name an output of its graph", p.Graph().Name, name)
}

// tensor is the record of a value's instance. Variables are shared by all
// programs, but caches by those of LoadOptions.Caches, and an adapter's by those of
// LoadOptions.Adapter. Values of a microbatch have records
// of their own for each of the two sizes of microbatch, and other values for each bucket,
// except for constants that do not depend on the size.
func (p *Program) tensor(i partition.Instance) (*residency.Tensor, error) {
	k, t := p.known(i)
	if t != nil {
		return t, nil
	}
	v := i.Value
	t, err := p.rt.Residency.Declare(k, v.Meta, i.Usage)
	if err != nil {
		return nil, err
	}
	p.tensors[k] = t
	if v.Kind == graph.Variable {
		p.vars[v.Name] = t
		p.rt.users[t]++
	}
	p.lasting[t] = v.Kind == graph.Variable || v.PerMicrobatch
	if v.PerMicrobatch {
		return t, p.fillConstant(t, v, i.Microbatch)
	}
	return t, nil
}

// known is the key of an instance's record, and the record if there is one.
func (p *Program) known(i partition.Instance) (residency.Key, *residency.Tensor) {
	v, k := i.Value, VariableKey(i.Value)
	k.Net, k.Microbatch = p.opt.Net, i.Microbatch
	full := p.tensors[k]
	switch {
	case v.Role == graph.Cache:
		k.Net = p.opt.Caches
	case v.Kind == graph.Variable && p.opt.Adapter != "" && !v.Tagged(graph.BaseTag):
		k.Net = "adapter " + p.opt.Adapter
	case v.Kind == graph.Variable:
		k.Net = ""
	case (i.Tail || i.Bucket > 0) && v.PerMicrobatch && full != nil && full.Meta().Equal(v.Meta):
		return k, full // the peak of the full step's plan has counted it
	case i.Tail:
		k.Net += ".tail"
	case i.Bucket > 0:
		k.Net += fmt.Sprint(".bucket", i.Bucket)
	}
	return k, p.tensors[k]
}

// VariableKey is the key of a variable that all programs of a runtime share: see [Runtime.Load].
func VariableKey(v *graph.Value) residency.Key {
	whole := v.Whole().Name
	return residency.Key{Value: whole, Range: v.Name[len(whole):]}
}

// fillConstant gives a per-microbatch constant its contents.
func (p *Program) fillConstant(t *residency.Tensor, v *graph.Value, microbatch int) error {
	if p.opt.Constant == nil {
		return fmt.Errorf("%w: %s: the constant %s has no contents: set LoadOptions.Constant", ErrOptions, p.Graph().Name, v.Name)
	}
	return p.rt.Residency.Fill(t, p.opt.Constant(v, microbatch))
}
