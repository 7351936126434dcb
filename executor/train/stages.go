package train

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/berth-ml/berth/engine/device"
	"github.com/berth-ml/berth/executor"
	"github.com/berth-ml/berth/executor/balance"
	"github.com/berth-ml/berth/executor/boundary"
	"github.com/berth-ml/berth/executor/infer"
	"github.com/berth-ml/berth/executor/session"
	"github.com/berth-ml/berth/internal/stop"
	"github.com/berth-ml/berth/internal/units"
	"github.com/berth-ml/berth/partition"
)

// BalanceBlocks is a change of the blocks of stages.
type BalanceBlocks struct {
	Step      int            `json:"step"`               // the first one with them
	Stages    []BalanceStage `json:"stages"`             // from then on
	Back      bool           `json:"back,omitempty"`     // those of before again, since steps took no less; both times are measured
	Slowness  []float64      `json:"slowness,omitempty"` // by device: its time, as a multiple of that of the plan before; the least is 1
	BeforeMS  float64        `json:"before_ms"`          // a step with the blocks of before, as forecast by these times
	AfterMS   float64        `json:"after_ms"`           // the same with those of from then on
	Variables int            `json:"variables"`          // that went from device to device
	Bytes     int64          `json:"moved_bytes"`        // of these
	Seconds   float64        `json:"seconds"`            // that the change took
}

// BalanceStage is a stage, and where it is.
type BalanceStage struct {
	Device device.ID `json:"device"`
	Blocks []string  `json:"blocks"`
}

// mostBlocks is the most changes of blocks that a report has.
const mostBlocks = 32

// restaged is what became of the blocks of stages in an attempt. The loop owns it.
type restaged struct {
	count  int
	newest []BalanceBlocks
	cost   time.Duration // of the newest change
	left   balance.Cuts  // the blocks of before
	trial  *trial        // the newest change; nil: there is none, or steps have shown that they take less
	failed bool          // a change has, and no more is tried
}

// trial is a change that is undone if steps take no less with it.
type trial struct {
	was    planned
	before float64 // milliseconds of a step before it, as measured
	steps  int     // of the loop's clock, at the change
}

// restage gives the stages other blocks, where their devices have taken other times than planned for long enough, and that
// is worth its cost. It is called at a boundary, when nothing is queued.
func (l *loop) restage(ctx context.Context) error {
	a, began := l.a, time.Now()
	if a.restaged.failed || a.goal.reached(&a.at) {
		return nil
	}
	if c := l.back(); c != nil {
		return l.change(ctx, c, began)
	}
	seconds, ok := a.prog.Uneven()
	if !ok {
		return nil
	}
	c, err := a.evener(l.leisure, slices.Clone(seconds))
	switch {
	case l.leisure.Err() != nil: // the run ends
		return nil
	case err != nil:
		a.keepBlocks(err)
		return nil
	case !c.worth(a):
		a.prog.KeepCut(time.Since(began))
		return nil
	}
	return l.change(ctx, c, began)
}

// back is the change back from the newest one, if steps have taken no less since that; else nil.
func (l *loop) back() *change {
	a, t := l.a, l.a.restaged.trial
	if t == nil || l.clock.Steps()-t.steps < balance.ApartSteps {
		return nil
	}
	a.restaged.trial = nil
	c := &change{from: a.session, to: t.was, back: true, before: l.clock.Median(l.clock.Steps()-t.steps) / 1e3, after: t.before / 1e3}
	from, to := c.from.Plan, c.to.session.Plan
	if c.before < c.after || !from.HasRoomToMove(to) {
		return nil
	}
	c.variables, c.bytes, _ = from.Moved(to)
	return c
}

// change makes a change, for which work began then.
func (l *loop) change(ctx context.Context, c *change, began time.Time) error {
	a := l.a
	if err := a.saves.Await(); err != nil {
		return err
	}
	was, before := planned{a.session, a.load.Tail, a.load.Buckets}, l.clock.Median(balance.ApartSteps)
	undone, err := a.recut(ctx, l.leisure, c.to)
	switch {
	case err != nil && (!undone || errors.Is(err, device.ErrLost)):
		return err
	case err != nil && l.leisure.Err() != nil: // before anything moved
		return nil
	case err != nil: // such as that of a segment which does not compile
		a.keepBlocks(err)
		return nil
	}
	c.cost = time.Since(began)
	a.opt.Observer.note(c.text(a.at.Step + 1))
	a.restaged.add(c, a.at.Step+1)
	if !c.back {
		a.restaged.trial = &trial{was, before, l.clock.Steps()}
	}
	return nil
}

// keepBlocks says that blocks stay where they are from now on, since another plan fails.
func (a *attempt) keepBlocks(err error) {
	a.restaged.failed = true
	a.opt.Observer.warn("stages keep their blocks from here on: " + executor.Happened(err))
}

// add adds a change from a step on.
func (r *restaged) add(c *change, step int) {
	if r.newest = append(r.newest, c.report(step)); len(r.newest) > mostBlocks {
		r.newest = slices.Delete(r.newest, 0, 1)
	}
	r.count++
	r.cost = c.cost
	if r.left == nil {
		r.left = balance.Cuts{}
	}
	if c.back {
		r.left.Refuse(cutOf(c.from.Plan), len(c.from.Devices))
	} else {
		r.left.Leave(cutOf(c.from.Plan), c.seconds)
	}
}

// change is that from one plan to another one.
type change struct {
	from          *session.Session // nil: there is no other plan
	to            planned
	back          bool      // to the plan of before
	seconds       []float64 // by device: of its passes, as measured; nil for a change back
	before, after float64   // seconds of a step, as forecast by these times; for a change back, as measured
	variables     int       // that go to another device
	bytes         int64     // of these
	cost          time.Duration
}

// evener plans for devices whose passes take so many seconds.
func (a *attempt) evener(ctx context.Context, seconds []float64) (*change, error) {
	c := &change{from: a.session, seconds: seconds}
	plan := a.session.Plan
	slow := balance.Slowness(seconds, plan.Slowed(nil).PassSeconds())
	_, err := a.session.Evenly(slow, func(s *session.Session) (err error) {
		c.to, err = a.run.planFor(ctx, s)
		return err
	})
	if errors.Is(err, partition.ErrMemory) { // no other blocks have room
		return &change{}, nil
	}
	if err != nil {
		return nil, err
	}
	was, err := plan.Slowed(slow).Predict(stop.Of(ctx))
	if err != nil {
		return nil, err
	}
	will, err := c.to.session.Plan.Predict(stop.Of(ctx))
	if err != nil {
		return nil, err
	}
	c.before, c.after = was.Seconds, will.Seconds
	return c, nil
}

// worth reports whether a change can be made, and is worth what it costs.
func (c *change) worth(a *attempt) (ok bool) {
	if c.from == nil || !c.to.session.Plan.Movable() || c.to.evaluatesTight() || len(c.moves()) == 0 {
		return false
	}
	from, to := c.from.Plan, c.to.session.Plan
	c.variables, c.bytes, ok = from.Moved(to)
	if !ok || !from.HasRoomToMove(to) || a.restaged.left.Vain(cutOf(from), c.seconds, cutOf(to)) {
		return false
	}
	steps := a.goal.steps
	if a.goal.maxSteps > 0 {
		steps = min(steps, a.goal.maxSteps)
	}
	cost := a.restaged.cost
	if cost == 0 { // the first change compiles what the start has, at the most
		cost = a.rt.Compiled().Time
	}
	if s := a.session.Planner.Specs[0].LinkBytesPerS; s > 0 {
		cost += time.Duration(float64(c.bytes) / s * float64(time.Second))
	}
	return balance.Pays(c.before, c.after, steps-a.at.Step, cost)
}

// evaluatesTight reports whether an evaluation moves anything for lack of memory.
func (p *planned) evaluatesTight() bool {
	for d, peak := range p.session.Judge.Peaks {
		if limit := p.session.Planner.Specs[d].MemoryBytes; limit > 0 && peak > limit {
			return true
		}
	}
	return false
}

// cutOf names the blocks of each stage, and where it is.
func cutOf(p *partition.Plan) string {
	var text strings.Builder
	for _, s := range p.Stages {
		fmt.Fprintln(&text, s.Device, s.Blocks)
	}
	return text.String()
}

// recut has the run go on by other plans. undone tells that it goes on as before. It is, where leisure ends before anything has
// moved.
func (a *attempt) recut(ctx, leisure context.Context, to planned) (undone bool, err error) {
	if err := a.closeAnswers(); err != nil {
		return false, err
	}
	if a.eval != nil {
		if err := a.eval.Close(); err != nil {
			return false, err
		}
		a.eval = nil
	}
	boundary.Unseal(a.rt.Residency)
	defer a.seal()
	load := to.program(leisure)
	load.Constant = a.constant
	undone, err = a.prog.Recut(ctx, load)
	if err != nil && !undone {
		return false, err
	}
	if err == nil {
		a.session, a.load = to.session, load // the run keeps its plan, with which the next call begins
		a.session.Debug().Plan(a.session.Devices, a.session.Plan)
		order, failed := a.session.Schedule()
		if failed == nil {
			failed = a.dump.Recut(a.session.Plan, order, a.prog.Next())
		}
		if failed != nil {
			return false, failed
		}
	}
	if a.val != nil {
		var failed error
		if a.eval, failed = infer.NewEvaluator(ctx, a.rt, a.session.Judge.Model(a.session.Model()), a.val); failed != nil {
			return false, errors.Join(err, failed)
		}
	}
	return undone, err
}

// blockMove is blocks in a row that go from one device to another.
type blockMove struct {
	blocks   []string
	from, to device.ID
}

// moves are the blocks that go to another device.
func (c *change) moves() (list []blockMove) {
	was := map[string]device.ID{}
	for _, s := range c.from.Plan.Stages {
		for _, b := range s.Blocks {
			was[b] = c.from.Devices[s.Device].ID()
		}
	}
	for _, s := range c.to.session.Plan.Stages {
		to := c.from.Devices[s.Device].ID()
		for i, b := range s.Blocks {
			from, last := was[b], len(list)-1
			switch {
			case from == to:
			case i > 0 && last >= 0 && list[last].from == from && list[last].to == to && slices.Contains(list[last].blocks, s.Blocks[i-1]):
				list[last].blocks = append(list[last].blocks, b)
			default:
				list = append(list, blockMove{[]string{b}, from, to})
			}
		}
	}
	return list
}

// slowness is, by device, its time as a multiple of what the plan counted with, beside the device that took the least.
func (c *change) slowness() (list []float64) {
	planned := c.from.Plan.PassSeconds()
	for d, s := range c.seconds {
		list = append(list, s/planned[d])
	}
	least := slices.Min(list)
	for d := range list {
		list[d] /= least
	}
	return list
}

// text words a change from a step on.
func (c *change) text(step int) string {
	var moves []string
	for _, m := range c.moves() {
		blocks := "block " + m.blocks[0]
		switch n := len(m.blocks); {
		case n == 2:
			blocks = fmt.Sprintf("blocks %s and %s", m.blocks[0], m.blocks[1])
		case n > 2:
			blocks = fmt.Sprintf("blocks %s to %s", m.blocks[0], m.blocks[n-1])
		}
		moves = append(moves, fmt.Sprintf("%s from %s to %s", blocks, m.from, m.to))
	}
	went := fmt.Sprintf("%s (%s) went from device to device", units.Count(c.variables, "variable"), units.Bytes(c.bytes))
	if c.back {
		return fmt.Sprintf("from step %d on, stages have the blocks of before again: %s, since a step took %s in place of %s; %s",
			step, units.List(moves), units.Seconds(c.before), units.Seconds(c.after), went)
	}
	slowness := c.slowness()
	fast, slow := slices.Index(slowness, 1), slices.Index(slowness, slices.Max(slowness))
	return fmt.Sprintf("from step %d on, stages have other blocks: %s, since %s takes %s times as long as planned beside %s; "+
		"a step is to take %s in place of %s, and %s",
		step, units.List(moves), c.from.Devices[slow].ID(), times(slowness[slow]), c.from.Devices[fast].ID(),
		units.Seconds(c.after), units.Seconds(c.before), went)
}

// times is a factor in two or more digits: "1.3", or "452".
func times(x float64) string {
	if x < 10 {
		return fmt.Sprintf("%.1f", x)
	}
	return fmt.Sprintf("%.0f", x)
}

// report reports a change from a step on.
func (c *change) report(step int) BalanceBlocks {
	b := BalanceBlocks{
		Step: step, Back: c.back, BeforeMS: 1e3 * c.before, AfterMS: 1e3 * c.after,
		Variables: c.variables, Bytes: c.bytes, Seconds: c.cost.Seconds(),
	}
	if !c.back {
		b.Slowness = c.slowness()
	}
	for _, s := range c.to.session.Plan.Stages {
		b.Stages = append(b.Stages, BalanceStage{c.from.Devices[s.Device].ID(), s.Blocks})
	}
	return b
}
