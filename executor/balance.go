package executor

import (
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/berth-ml/berth/engine/device"
	"github.com/berth-ml/berth/executor/balance"
	"github.com/berth-ml/berth/executor/schedule"
	"github.com/berth-ml/berth/partition"
)

// Balance has the replicas of a program take microbatches by their measured speed: see package balance.
type Balance struct {
	Clock  *balance.Clock // that the streams of the runtime's devices tell of operations
	Within bool           // others count on the memory above the plan's peaks
	Stages bool           // of a plan that is [partition.Plan.Movable], the stages are measured: see [Program.Uneven]
}

// Move is a change of the replicas' shares, or, where From and To are equal, one for which there was no memory.
type Move struct {
	Ticket   Ticket    // the first step with them
	From, To []int     // microbatches of a full step, by replica
	Seconds  []float64 // by replica: the time for a microbatch that was measured before
	Full     []bool    // by replica: its devices have no memory for more
}

// Changes reports whether the shares are others.
func (m *Move) Changes() bool { return !slices.Equal(m.From, m.To) }

// Moves are what became of the replicas' shares.
type Moves struct {
	First  []int  // shares, those of the plan
	Now    []int  // shares of the steps to come
	Count  int    // of all moves
	Others int    // of those that change the shares
	Newest []Move // the newest 32
}

// balancing shares the microbatches of a program's steps. The program owns it; nil: the plan's shares stay.
type balancing struct {
	Balance
	*balance.Balancer
	planned *partition.Plan      // with Within, the first one, and its memory as that of other shares is forecast
	memory  []partition.Forecast // that covers the plans so far
	moves   Moves
	passes  []float64 // of a step, by replica: seconds of its passes
	err     error     // why shares do not change any more; nil: they may
}

// passTimes are the times of the passes of a program's steps. The program owns it; nil: nobody asks for them.
type passTimes struct {
	clock   *balance.Clock
	fresh   Ticket    // the newest step that is not measured, since it is the first of its plan
	devices []float64 // of a step, by device: seconds of its passes
}

// passKind is the launches of one executable in a step's passes, on one device: all do the same.
type passKind struct {
	device   int // index in Runtime.Devices
	launches int
	least    time.Duration // of the launches of the step that is being measured, the one that took least
}

// beginBalance readies balancing, if the program's replicas can take other shares, or its stages other blocks.
func (p *Program) beginBalance() error {
	full, o := p.opt.Full, p.opt.Balance
	if o == nil || !full.Shareable() && !(o.Stages && full.Movable()) || p.beside != nil {
		return nil
	}
	if o.Clock == nil {
		return fmt.Errorf("%w: %s: LoadOptions.Balance has no Clock", ErrOptions, p.Graph().Name)
	}
	p.times = &passTimes{clock: o.Clock, devices: make([]float64, len(p.rt.Devices))}
	defer p.watch()
	if !full.Shareable() {
		p.stages = &balance.Stages{}
		p.stages.Begin(full.PassSeconds())
		return nil
	}
	shares, err := full.Shares()
	if err != nil {
		return err
	}
	var planned *partition.Plan
	if p.opt.Balance.Within {
		if planned, err = full.Share(shares); err != nil {
			return err
		}
	}
	p.balancing = &balancing{
		Balance: *p.opt.Balance, Balancer: balance.New(shares), planned: planned, moves: Moves{First: shares, Now: shares}, memory: slices.Clone(full.Memory),
		passes: make([]float64, len(shares)),
	}
	return nil
}

// watch has the clock keep the launches of the steps to come. The first of these is not measured: it may load what it needs.
func (p *Program) watch() {
	p.times.fresh = p.Next()
	most := 0
	for _, e := range p.sizes {
		e.findPasses()
		most = max(most, len(e.tasks))
	}
	var queues []device.Queue
	for _, d := range p.opt.Full.Devices() {
		queues = append(queues, p.rt.on[d].compute.Record().Queue)
	}
	p.times.clock.Begin(queues, ahead*most)
}

// findPasses finds the kinds of launches of the passes.
func (e *expansion) findPasses() {
	byExe := map[device.Executable]*passKind{}
	for _, t := range e.tasks {
		if !slices.ContainsFunc(t.kinds, schedule.Kind.OfMicrobatch) {
			continue
		}
		if t.pass = byExe[t.exe]; t.pass == nil {
			t.pass = &passKind{device: t.dev}
			byExe[t.exe] = t.pass
			e.kinds = append(e.kinds, t.pass)
		}
		t.pass.launches++
	}
}

// measure takes the times of a full step that has ended well. In an epoch's smaller last step, the replica with
// the last microbatch would look faster, and steps from before a change have other shares. A replica works for as
// long as that of its devices which works longest. A launch counts as the fastest of its kind in the step.
func (p *Program) measure(f *flight) {
	x := p.times
	full := x != nil && f.e.tail == nil && f.e.microbatches == p.opt.Full.Microbatches
	if !full || f.ticket <= x.fresh || !slices.Contains(p.sizes, f.e) {
		return
	}
	for _, k := range f.e.kinds {
		k.least = math.MaxInt64
	}
	for _, t := range f.e.tasks {
		if t.pass == nil {
			continue
		}
		took, ok := x.clock.Took(t.events[f.slot()])
		if !ok {
			return // nobody tells the clock
		}
		t.pass.least = min(t.pass.least, took)
	}
	clear(x.devices)
	for _, k := range f.e.kinds {
		x.devices[k.device] += float64(k.launches) * k.least.Seconds()
	}
	if p.stages != nil {
		if f.e.full == p.opt.Full { // shorter samples than those that the plan counted with take less
			p.stages.Took(x.devices)
		}
		return
	}
	b := p.balancing
	clear(b.passes)
	for _, k := range f.e.kinds {
		r := p.opt.Full.ReplicaOf(k.device)
		b.passes[r] = max(b.passes[r], x.devices[k.device])
	}
	b.Took(b.passes)
}

// rebalance has the steps to come take other shares, if that is worth it. Steps under way go on as they
// are. After a failure the shares stay. It reports whether they changed.
func (p *Program) rebalance() bool {
	b := p.balancing
	if b == nil || b.err != nil {
		return false
	}
	shares, ok := b.Propose()
	if !ok {
		return false
	}
	began := time.Now()
	var full []bool
	for ok {
		plans, lacks, err := p.share(shares)
		if err == nil && lacks >= 0 {
			if full == nil {
				full = make([]bool, len(shares))
			}
			full[lacks] = true
			shares, ok = b.Refuse(lacks)
			continue
		}
		if err == nil {
			err = p.expandAs(plans)
		}
		if b.err = err; err == nil {
			p.moved(shares, full, time.Since(began))
		}
		return err == nil
	}
	if n := len(b.moves.Newest); n == 0 || b.moves.Newest[n-1].Changes() { // it is recorded once
		b.record(p.Next(), b.Shares(), full)
	}
	return false
}

// share is each plan of the program with other shares. lacks is a replica whose devices lack the memory
// for them; -1: none does.
func (p *Program) share(shares []int) (plans map[*partition.Plan]*partition.Plan, lacks int, err error) {
	plans = map[*partition.Plan]*partition.Plan{}
	for _, x := range append([]*partition.Plan{p.opt.Full}, p.opt.Buckets...) {
		if plans[x] != nil {
			continue
		}
		if plans[x], err = x.Share(shares); err != nil {
			return nil, -1, err
		}
		for i := range plans[x].Memory {
			if f := &plans[x].Memory[i]; !p.balancing.fits(f) && !slices.Equal(shares, p.balancing.moves.First) {
				return nil, p.opt.Full.ReplicaOf(f.Device), nil
			}
		}
	}
	return plans, -1, nil
}

// fits reports whether steps that take so much memory of a device move nothing for lack of it.
func (b *balancing) fits(f *partition.Forecast) bool {
	for i := 0; b.planned != nil && i < len(b.planned.Memory); i++ {
		if x := &b.planned.Memory[i]; x.Device == f.Device && (f.Peak > x.Peak || f.Floor > x.Floor) {
			return false
		}
	}
	return f.Limit <= 0 || f.Peak <= f.Limit
}

// expandAs prepares the steps of each size again, by other plans.
func (p *Program) expandAs(plans map[*partition.Plan]*partition.Plan) error {
	before := p.opt
	p.opt.Full, p.opt.Stop = plans[before.Full], nil
	p.opt.Buckets = nil
	for _, x := range before.Buckets {
		p.opt.Buckets = append(p.opt.Buckets, plans[x])
	}
	order, err := p.opt.Full.ScheduleOf(p.opt.Full.Microbatches)
	if err == nil {
		err = p.expandAnew(plans)
	}
	if err != nil {
		p.opt = before
		return err
	}
	p.schedule = order
	return nil
}

// moved notes that the steps to come have other shares, which took so long.
func (p *Program) moved(shares []int, full []bool, cost time.Duration) {
	b := p.balancing
	b.record(p.Next(), shares, full)
	b.Take(cost)
	p.watch()
	p.cover(b.memory)
}

// cover raises the memory of devices to what steps take by the plans of now.
func (p *Program) cover(memory []partition.Forecast) {
	for _, x := range append([]*partition.Plan{p.opt.Full}, p.opt.Buckets...) {
		for _, f := range x.Memory {
			if i := slices.IndexFunc(memory, func(of partition.Forecast) bool { return of.Device == f.Device }); i >= 0 {
				memory[i].Cover(f)
			}
		}
	}
}

// record records a move to shares. Replicas were found to be full for those that were proposed first.
func (b *balancing) record(at Ticket, to []int, full []bool) {
	m := Move{Ticket: at, From: slices.Clone(b.Shares()), To: slices.Clone(to), Seconds: slices.Clone(b.Seconds()), Full: make([]bool, len(to))}
	copy(m.Full, full)
	for r, n := range to {
		m.Full[r] = m.Full[r] || b.Full(r, n)
	}
	const most = 32
	x := &b.moves
	if x.Newest = append(x.Newest, m); len(x.Newest) > most {
		x.Newest = slices.Delete(x.Newest, 0, 1)
	}
	if x.Count++; m.Changes() {
		x.Others++
	}
	x.Now = m.To
}

// Moves are those of the replicas' shares so far; with an error if one failed, after which the shares stay.
// The caller must not change the lists.
func (p *Program) Moves() (Moves, error) {
	if p.balancing == nil {
		return Moves{}, nil
	}
	return p.balancing.moves, p.balancing.err
}

// Plan is the plan of a full microbatch by which the next step runs: that of the options, with other shares
// after a move.
func (p *Program) Plan() *partition.Plan { return p.opt.Full }

// Memory is the memory that steps take, by the plans so far.
func (p *Program) Memory() []partition.Forecast {
	switch {
	case p.balancing != nil:
		return p.balancing.memory
	case p.covered != nil:
		return p.covered
	}
	return p.opt.Full.Memory
}
