package step

import (
	"fmt"
	"slices"

	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/executor/schedule"
	"github.com/berth-ml/berth/internal/stop"
	"github.com/berth-ml/berth/partition/nodes"
	"github.com/berth-ml/berth/partition/segment"
)

// Program is the segments of a plan and the devices that run them: what the launches of
// its steps follow from.
type Program struct {
	Index      *nodes.Index
	Segments   []segment.Segment
	Devices    []int // by stage: of the first replica
	PerReplica int   // devices of each replica
	Ranks      []int // per device, the rank that has it; nil: one process has all
	Bucket     int   // of the instances: see [Instance]
	// schedule is the order of a step of so many microbatches.
	Schedule func(microbatches int) (schedule.Schedule, error)
}

// Options describes a step of a program.
type Options struct {
	Microbatches int      // at least 1
	Tail         *Program // of the last microbatch and of the update; nil: as in the program
	Fetch        bool     // the graph's outputs stay after the step
	Of           []int    // per device, its rank; nil: all launches are listed. Otherwise those of Rank, and what it must know of others: see part.go
	Rank         int
	Near         bool // with Of: what only says who has a variable is left out
}

// DeviceOf is the index of the device of a stage's replica.
func (p *Program) DeviceOf(stage, replica int) int { return replica*p.PerReplica + p.Devices[stage] }

// Launch is one run of a segment in a step.
type Launch struct {
	Segment    *segment.Segment
	Replica    int              // of the stage
	Device     int              // index in PlanOptions.Devices
	Variant    *segment.Variant // the segment's for this microbatch
	Microbatch int              // of the action in which it is queued
	Lo, Hi     int              // the sums that it writes are of microbatches Lo to Hi-1
	reduces    bool
	Tail       bool   // the segment is of StepOptions.Tail
	Needs      []Need // the tensors that it uses, once each
	In, Out    []int  // per input and output of Variant, its index in Needs
	Over       []int  // indices in Needs of those that it is the last to use
	Also       []int  // the devices on which the launches after it repeat it, each on another rank
	repeats    bool   // it is such a launch
}

// Repeats reports whether it does the work of a launch before it once more, since its rank would be
// sent the results otherwise: the tensors that it writes are then on both.
func (l *Launch) Repeats() bool { return l.repeats }

// Reduces reports whether it adds partial sums, or cuts them into ranges.
func (l *Launch) Reduces() bool { return l.reduces }

// Action is the action of the schedule that the launch is a part of.
func (l *Launch) Action() schedule.Action {
	a := schedule.Action{Stage: l.Segment.Stage, Kind: l.Segment.Pass, Microbatch: l.Microbatch, Replica: l.Replica}
	if a.Kind == schedule.Update {
		a.Microbatch = 0
	}
	return a
}

// Kinds are the passes that the launch runs, in their order; a reduction is no part of one.
func (l *Launch) Kinds() []schedule.Kind {
	if l.Reduces() {
		return []schedule.Kind{schedule.Reduce}
	}
	return l.Segment.Passes.Kinds()
}

// KindsOf are the passes of one op of the launch; nil is a copy, which may be of any.
func (l *Launch) KindsOf(n *graph.Node) []schedule.Kind {
	if n == nil || l.Reduces() {
		return l.Kinds()
	}
	return []schedule.Kind{segment.PassOf(n, l.Segment.Pass)}
}

// Name is the segment's name and, except in the update, the microbatch:
// "s0.F2", "s0.F2:block0", "s0.U1". It is "s0.BR4-8" where the sums of microbatches
// 4 to 7 are made of partial ones, and "s0.BS4-8" where they are cut into ranges.
func (l *Launch) Name() string {
	s := l.Segment
	switch {
	case l.repeats:
		return s.Name + segment.OnReplica(l.Replica)
	case s.Pass == schedule.Update:
		return s.Name
	case l.Reduces():
		does := 'R'
		if l.Variant == &s.Split {
			does = 'S'
		}
		name := fmt.Sprintf("s%d.%v%c%d-%d", s.Stage, s.Passes, does, l.Lo, l.Hi)
		if l.Variant != &s.Reduce && l.Variant != &s.Split {
			name += segment.OnReplica(l.Replica)
		}
		return name + segment.Suffix(s.Piece)
	}
	return fmt.Sprintf("s%d.%v%d", s.Stage, s.Passes, l.Microbatch) + segment.Suffix(s.Piece)
}

// Launches lists the launches of a step in the order in which they are queued: that of the
// schedule, then the update, level by level over all stages.
func (p *Program) Launches(check *stop.Check, o Options) ([]Launch, error) {
	if o.Of != nil {
		return p.part(check, o)
	}
	e := newExpansion(p, o)
	if err := e.expand(check); err != nil {
		return nil, err
	}
	e.endInstances(check)
	return e.launches, check.Err()
}

// Walk tells visit of each launch of a step in order, and keeps none: neither may visit keep it. Nothing is said to be over.
func (p *Program) Walk(check *stop.Check, o Options, visit func(l *Launch)) error {
	e := newExpansion(p, o)
	e.visit = visit
	return e.expand(check)
}

// LaunchesOnce lists the launches of steps of these numbers of microbatches, but of each
// variant on each device the first alone. Nothing is said to be over.
func (p *Program) LaunchesOnce(sizes []int) (all []Launch, err error) {
	listed, numbers := map[Run]bool{}, newNumbering(p.Index)
	for _, size := range sizes {
		e := newExpansion(p, Options{Microbatches: size})
		e.numbers, e.listed = numbers, listed
		if err := e.expand(p.Index.Stop); err != nil {
			return nil, err
		}
		all = append(all, e.launches...)
	}
	return all, nil
}

// Run is a variant on a device.
type Run struct {
	Variant *segment.Variant
	Device  int
}

// expand lists the launches of a step, or has them visited.
func (e *expansion) expand(check *stop.Check) error {
	s, err := e.full.plan.Schedule(e.o.Microbatches)
	if err != nil {
		return err
	}
	order := s.Order()
	e.sums = newSumming(e.full.plan.Index.Tree, replicasOf(order, e.o.Microbatches))
	for _, a := range order {
		if a.Kind != schedule.Update {
			e.left[a.Stage]++
		}
	}
	for _, a := range stop.Each(check, order) {
		if a.Kind != schedule.Update {
			e.add(check, a)
		}
	}
	if err := check.Err(); err != nil {
		return err
	}
	e.add(check, schedule.Action{Kind: schedule.Update, Stage: anyStage, Microbatch: e.o.Microbatches - 1})
	return check.Err()
}

// anyStage stands for the stages of the update: its levels go over all of them.
const anyStage = -1

// expansion lists the launches of a step, in the order of its schedule. The call that asks for the
// launches owns it.
type expansion struct {
	o          Options
	full, tail segmentLists // tail is that of full where the step has none
	launches   []Launch
	sums       summing
	left       map[int]int                // by stage: actions before its update that are to come
	apart      map[int][]segmentSum       // by stage: sums over replicas, which are made after the last of them
	ends       map[*segment.Segment][]int // the replicas that have a variant of ReduceOn
	bindings   *bindings
	numbers    *numbering
	listed     map[Run]bool          // variants whose launches are left out; nil: none is
	skips      func(device int) bool // devices whose launches are left out; nil: none is
	visit      func(l *Launch)       // hears of each launch in place of the list
	now        Launch                // that visit hears of
	spare      []Need                // of that launch
	joined     map[int]bool          // by Value.ID: it is joined from ranges, on all ranks
}

func newExpansion(p *Program, o Options) *expansion {
	e := &expansion{
		o: o, full: listByAction(p), bindings: newBindings(p.Index), numbers: newNumbering(p.Index),
		left: map[int]int{}, apart: map[int][]segmentSum{}, ends: map[*segment.Segment][]int{}, joined: map[int]bool{},
	}
	if e.tail = e.full; o.Tail != nil {
		e.tail = listByAction(o.Tail)
	}
	return e
}

// segmentLists has the segments of a plan by action, in plan order, so that an action of the
// schedule finds its own without looking at the others.
type segmentLists struct {
	plan *Program
	of   map[segmentKey][]*segment.Segment
}

// segmentKey is a part of a schedule's action, which is for each microbatch alike.
type segmentKey struct {
	pass  schedule.Kind
	stage int // anyStage for the update
}

func listByAction(p *Program) segmentLists {
	l := segmentLists{p, map[segmentKey][]*segment.Segment{}}
	for i := range p.Segments {
		s := &p.Segments[i]
		k := segmentKey{s.Pass, s.Stage}
		if s.Pass == schedule.Update {
			k.stage = anyStage
		}
		l.of[k] = append(l.of[k], s)
	}
	return l
}

// add appends a launch for each segment of an action.
func (e *expansion) add(check *stop.Check, a schedule.Action) {
	lists, tail := e.full, e.o.Tail != nil && a.Microbatch == e.o.Microbatches-1
	if tail {
		lists = e.tail
	}
	for _, s := range lists.of[segmentKey{a.Kind, a.Stage}] {
		l := Launch{Segment: s, Replica: a.Replica, Device: lists.plan.DeviceOf(s.Stage, a.Replica), Variant: &s.First, Microbatch: a.Microbatch, Tail: tail}
		if a.Kind == schedule.Update {
			l.Replica, l.Device = s.Replica, lists.plan.DeviceOf(s.Stage, s.Replica)
			e.launchOnAll(lists.plan, l)
			continue
		}
		sum, later := e.sums.leaf(a.Microbatch)
		if later {
			l.Variant = &s.Later
		}
		l.Lo, l.Hi = sum.lo, sum.hi
		e.launch(lists.plan, l)
		if s.Reduce.Graph != nil {
			e.reduce(&e.full.plan.Segments[s.ID], sum, a.Microbatch)
		}
	}
	if e.left[a.Stage]--; e.left[a.Stage] == 0 {
		e.reduceApart(check, a.Stage, a.Microbatch)
	}
}

// launchOnAll appends a launch of the update, and repeats it on other ranks if it only joins ranges:
// each rank is sent ranges of all, and none sends the whole to the others.
func (e *expansion) launchOnAll(p *Program, l Launch) {
	if p.Ranks == nil || !e.joinsRanges(l.Variant) {
		e.launch(p, l)
		return
	}
	var again []int // replicas
	done := map[int]bool{p.Ranks[l.Device]: true}
	for r := range len(p.Ranks) / p.PerReplica {
		d := p.DeviceOf(l.Segment.Stage, r)
		if rank := p.Ranks[d]; !done[rank] {
			done[rank] = true
			again, l.Also = append(again, r), append(l.Also, d)
		}
	}
	also := l.Also
	e.launch(p, l)
	l.repeats, l.Also = true, nil
	for i, r := range again {
		l.Replica, l.Device = r, also[i]
		e.launch(p, l)
	}
}

// joinsRanges reports whether a variant joins ranges, or gives another shape to what such a one has
// joined: all ranks that need the result have the parts anyway, or are sent the ranges in place of it.
func (e *expansion) joinsRanges(v *segment.Variant) bool {
	if !v.Joins() || len(v.In) == 1 && !e.joined[v.In[0].Value.ID] {
		return false
	}
	for _, s := range v.Out {
		e.joined[s.Value.ID] = true
	}
	return true
}

func (e *expansion) launch(p *Program, l Launch) {
	if e.leavesOut(&l) {
		return
	}
	e.bind(p, &l)
	e.emit(&l)
}

// emit lists a launch, or has it visited.
func (e *expansion) emit(l *Launch) {
	if e.visit != nil {
		e.now = *l
		e.visit(&e.now)
		return
	}
	e.launches = append(e.launches, *l)
}

// needs is room for so many needs of a launch.
func (e *expansion) needs(n int) []Need {
	if e.visit == nil {
		return make([]Need, n)
	}
	e.spare = slices.Grow(e.spare[:0], n)[:n]
	return e.spare
}

// leavesOut reports whether a launch is not to be listed, and notes its variant.
func (e *expansion) leavesOut(l *Launch) (known bool) {
	if e.skips != nil && e.skips(l.Device) {
		return true
	}
	if e.listed != nil {
		k := Run{l.Variant, l.Device}
		known, e.listed[k] = e.listed[k], true
	}
	return known
}

// reduce appends the launches that add partial sums of a segment, now that it has
// written one, and those that cut them into ranges. The first that adds sums of two
// replicas waits for the end of the stage's passes on all of them: a device runs its launches
// in their order, and none is to wait for another replica's pass before its own.
func (e *expansion) reduce(s *segment.Segment, written sumRange, microbatch int) {
	for sum := written; ; {
		if s.Split.Graph != nil && e.sums.largest(sum) {
			e.split(s, sum, microbatch)
		}
		above, ok := e.sums.complete(s.ID, sum)
		if !ok {
			return
		}
		if !e.sums.onOne(above) {
			e.apart[s.Stage] = append(e.apart[s.Stage], segmentSum{s.ID, above})
			return
		}
		e.addSums(s, &s.Reduce, e.sums.replica[above.lo], above, microbatch)
		sum = above
	}
}

// reduceApart appends the launches that have waited for a stage's passes.
func (e *expansion) reduceApart(check *stop.Check, stage, microbatch int) {
	for i := 0; i < len(e.apart[stage]) && !check.Done(); i++ { // reduce appends more
		x := e.apart[stage][i]
		s := &e.full.plan.Segments[x.segment]
		if s.ReduceOn == nil {
			e.addSums(s, &s.Reduce, e.sums.replica[x.lo], x.sumRange, microbatch)
		}
		for _, at := range e.endsOf(s) {
			e.addSums(s, &s.ReduceOn[at], at, x.sumRange, microbatch)
		}
		e.reduce(s, x.sumRange, microbatch)
	}
	delete(e.apart, stage)
}

// endsOf lists the replicas that make sums of a segment over replicas: of many, few have parameters of one segment.
func (e *expansion) endsOf(s *segment.Segment) []int {
	list, known := e.ends[s]
	if !known {
		for at := range s.ReduceOn {
			if s.ReduceOn[at].Graph != nil {
				list = append(list, at)
			}
		}
		e.ends[s] = list
	}
	return list
}

// addSums appends a launch that adds the partial sums below one, on a replica.
func (e *expansion) addSums(s *segment.Segment, v *segment.Variant, replica int, sum sumRange, microbatch int) {
	l := e.ofSums(s, v, replica, sum, microbatch)
	if e.leavesOut(&l) {
		return
	}
	l.Needs = e.needs(2 * len(v.Out))
	for n, s := range v.Out {
		left, right := e.partial(s, sum.lo), e.partial(s, sum.middle())
		l.Needs[2*n], l.Needs[2*n+1] = e.needOf(left, segment.ReadWrite), e.needOf(right, segment.Read)
	}
	l.In, l.Out = e.bindings.pairs(len(v.Out))
	e.emit(&l)
}

// split appends a launch that cuts partial sums into the ranges that replicas update.
func (e *expansion) split(s *segment.Segment, sum sumRange, microbatch int) {
	l := e.ofSums(s, &s.Split, e.sums.replica[sum.lo], sum, microbatch)
	if e.leavesOut(&l) {
		return
	}
	in := len(s.Split.In)
	l.Needs = e.needs(in + len(s.Split.Out))
	for i, s := range s.Split.In {
		l.Needs[i] = e.needOf(e.partial(s, sum.lo), segment.Read)
		l.In = append(l.In, i)
	}
	for i, s := range s.Split.Out {
		l.Needs[in+i] = e.needOf(e.partial(s, sum.lo), segment.Write)
		l.Out = append(l.Out, in+i)
	}
	e.emit(&l)
}

// ofSums is a launch that adds or cuts partial sums; its tensors are to be filled in.
func (e *expansion) ofSums(s *segment.Segment, v *segment.Variant, replica int, sum sumRange, microbatch int) Launch {
	return Launch{Segment: s, Variant: v, Replica: replica, Device: e.full.plan.DeviceOf(s.Stage, replica), Microbatch: microbatch, Lo: sum.lo, Hi: sum.hi, reduces: true}
}

// partial is the instance of a sum that begins with a microbatch.
func (e *expansion) partial(s segment.Slot, lo int) Instance {
	i := e.full.plan.Instance(s.Value, 0, false)
	i.Microbatch = lo
	return i
}

// bind fills in the tensors of a launch.
func (e *expansion) bind(p *Program, l *Launch) {
	b := e.bindings.of(l.Variant)
	l.In, l.Out, l.Needs = b.in, b.out, e.needs(len(b.needs))
	for i, s := range b.needs {
		l.Needs[i] = e.needOf(e.instance(p, l, s.Value), s.Mode)
	}
}

// replicasOf is the replica of each microbatch.
func replicasOf(order []schedule.Action, microbatches int) []int {
	list := make([]int, microbatches)
	for _, a := range order {
		if a.Kind == schedule.Forward {
			list[a.Microbatch] = a.Replica
		}
	}
	return list
}

// endInstances fills in what is over after each launch. The last launch that
// uses an instance ends it, also where that one writes it for nobody. Variables and
// constants of a microbatch last, and so do outputs that are to be fetched.
func (e *expansion) endInstances(check *stop.Check) {
	output := e.full.plan.Index.Output
	used := make([]bool, e.numbers.count) // by the launches behind; by number
	for i := range stop.Each(check, e.launches) {
		l := &e.launches[len(e.launches)-1-i]
		for k := range l.Needs {
			n := &l.Needs[k]
			v := n.Value
			if v.Kind == graph.Variable || v.PerMicrobatch || e.o.Fetch && output[v.ID] || used[n.Number] {
				continue
			}
			used[n.Number] = true
			l.Over = append(l.Over, k)
		}
	}
}
