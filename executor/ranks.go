package executor

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/berth-ml/berth/engine/device"
	"github.com/berth-ml/berth/engine/graph"
	"github.com/berth-ml/berth/executor/ranks"
	"github.com/berth-ml/berth/partition"
	"github.com/berth-ml/berth/residency"
)

// Ranks are processes of one run, which share its plans. Each launches what is on its own
// devices. All load the same programs, give variables the same contents, and take the same steps, in
// the same order.
type Ranks struct {
	Transport ranks.Transport
	Of        []int // per device as plans count them, the rank that has it
}

// exchange carries tensors between this rank and others. The runtime owns it; nil: there is
// one process.
type exchange struct {
	Ranks
	lines   map[lineKey]*ranks.Line
	streams map[streamKey]device.Stream
	holders partition.Holders // at the end of the steps that were queued
	senders []int             // of the messages of the step that is being queued
	mu      sync.Mutex        // guards what follows: Waits is called from any goroutine
	records []lineTo          // the lines, in the order in which they were made
}

// lineTo is a line, and where it leads.
type lineTo struct {
	lineKey
	*ranks.Line
}

// lineKey is another rank, and a direction.
type lineKey struct {
	peer  int
	sends bool
}

// streamKey is what a stream waits for: what is sent from a device to a rank, or received on a
// device from a rank. None waits for what comes from another one.
type streamKey struct {
	device int
	lineKey
}

// newExchange checks that the ranks can share plans for the devices of a runtime.
func newExchange(o *Ranks, devs []device.Device) (*exchange, error) {
	if o == nil {
		return nil, nil
	}
	if len(o.Of) != len(devs) {
		return nil, fmt.Errorf("%w: there are %d devices, and ranks of %d", ErrOptions, len(devs), len(o.Of))
	}
	x := &exchange{Ranks: *o, lines: map[lineKey]*ranks.Line{}, streams: map[streamKey]device.Stream{}, holders: partition.Holders{}}
	for i, d := range devs {
		if rank := o.Of[i]; rank < 0 || rank >= o.Transport.Size() {
			return nil, fmt.Errorf("%w: device %d is of rank %d, but there are %d", ErrOptions, i, rank, o.Transport.Size())
		}
		if d != nil && !x.owns(i) {
			return nil, fmt.Errorf("%w: rank %d is given %s, which is of rank %d", ErrOptions, x.rank(), d.ID(), o.Of[i])
		}
	}
	return x, nil
}

// rank is this one.
func (x *exchange) rank() int { return x.Transport.Rank() }

// owns reports whether a device is of this rank.
func (x *exchange) owns(device int) bool { return x == nil || x.Of[device] == x.rank() }

// line is that to or from a rank.
func (x *exchange) line(k lineKey) *ranks.Line {
	l := x.lines[k]
	if l == nil {
		l = ranks.NewLine(x.Transport, k.peer, k.sends)
		x.lines[k] = l
		x.mu.Lock()
		x.records = append(x.records, lineTo{k, l})
		x.mu.Unlock()
	}
	return l
}

// waiting hides that launches of a stream can wait half-way: on this one there are none.
type waiting struct{ device.Stream }

// stream is one that waits for what a message must wait for.
func (r *Runtime) stream(k streamKey) (device.Stream, error) {
	s := r.exchange.streams[k]
	if s != nil {
		return s, nil
	}
	name := fmt.Sprintf("receive from rank %d", k.peer)
	if k.sends {
		name = fmt.Sprintf("send to rank %d", k.peer)
	}
	d := r.Devices[k.device]
	opened, err := d.NewStream(r.Residency.StreamName(name))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", d.ID(), err)
	}
	s = waiting{opened}
	r.exchange.streams[k] = s
	return s, nil
}

// ends appends the events after which all messages so far have ended.
func (x *exchange) ends(to []device.Event) []device.Event {
	if x != nil {
		for _, l := range x.records {
			to = append(to, l.Record())
		}
	}
	return to
}

// RankWait is a message that waits for another rank: for one that comes from there, or until
// the other takes one.
type RankWait struct {
	Rank  int // the other
	Step  Ticket
	Task  string // "receive of grad/w3"
	Since time.Time
}

// Waits lists what this rank waits for: of each other rank and direction the message that has waited
// longest. It may be called from any goroutine.
func (r *Runtime) Waits() (list []RankWait) {
	x := r.exchange
	if x == nil {
		return nil
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	for _, l := range x.records {
		if label, since, ok := l.Open(); ok {
			list = append(list, RankWait{l.peer, Ticket(label.Step), label.What, since})
		}
	}
	slices.SortFunc(list, func(a, b RankWait) int { return a.Since.Compare(b.Since) })
	return list
}

// fail ends all messages of this rank: nothing more comes.
func (x *exchange) fail(err error) {
	if x != nil {
		x.Transport.Fail(fmt.Errorf("%w: %w", ranks.ErrEnded, err))
	}
}

// close waits for all messages, and frees the lines and streams.
func (x *exchange) close() (errs []error) {
	if x == nil {
		return nil
	}
	for _, s := range x.streams {
		errs = append(errs, s.Close())
	}
	for _, l := range x.records {
		errs = append(errs, l.Close())
	}
	return errs
}

// message is a task that sends or receives a tensor.
type message struct {
	number int // in the step's exchange
	lineKey
	host  [ahead]ranks.Host // of the last steps that ran it; without a buffer where the host addresses the device's memory
	found [1]residency.Need // of a variable that another program has: see needsOf
}

// listed is the launches of a size of steps, and what ranks send each other for them.
type listed struct {
	stepSize
	launches []partition.Launch
	exchange *partition.Exchange // nil: there is one process
	drops    [][]partition.Instance
	homes    map[string]int // by variable: the device of this rank from which it is sent
}

// list lists the launches of a size of steps; among ranks, the part of this one.
func (p *Program) list(size stepSize) (*listed, error) {
	x := p.rt.exchange
	if x == nil {
		launches, err := p.opt.launches(size, nil, 0)
		return &listed{stepSize: size, launches: launches}, err
	}
	launches, err := p.opt.launches(size, x.Of, x.rank())
	if err != nil {
		return nil, err
	}
	l := &listed{stepSize: size, launches: launches}
	l.exchange = partition.NewExchange(launches, x.Of)
	l.drops = l.exchange.Drops(x.rank())
	l.homes = l.exchange.Homes(x.rank())
	return l, p.stop.Err()
}

// MessageBytes is the host memory in bytes that a rank's messages of a program take in steps among others: they go through it
// where the host does not address a device's memory. of is, per device, its rank.
func (o LoadOptions) MessageBytes(devices []device.Spec, of []int, rank int) (bytes int64, err error) {
	hosted := func(d int) bool { return !devices[d].HostVisible }
	for d := range devices {
		if of[d] != rank || !hosted(d) {
			continue
		}
		for _, size := range o.sizes() {
			launches, err := o.launches(size, of, rank)
			if err != nil {
				return 0, err
			}
			bytes += ahead * partition.NewExchange(launches, of).Hosted(rank, hosted)
		}
		break
	}
	return bytes, nil
}

// has reports whether this rank has a variable.
func (p *Program) has(v *graph.Value) bool {
	return p.rt.exchange == nil || p.Has(v.Name, p.rt.exchange.rank())
}

// Has reports whether a rank has a variable of the program. One that no launch uses is the first rank's.
func (p *Program) Has(variable string, rank int) bool {
	return p.users.Has(variable, rank) || p.users.First(variable) < 0 && rank == 0
}

// elsewhere is a variable that another program of the runtime has on this rank; nil if none has it.
func (p *Program) elsewhere(variable string) *residency.Tensor {
	for _, q := range p.rt.programs {
		if t := q.vars[variable]; t != nil {
			return t
		}
	}
	return nil
}

// hold notes that all ranks which use a variable have its newest contents.
func (p *Program) hold(v *graph.Value) {
	h := p.rt.exchange.holders
	delete(h, v.Name)
	h.Join(partition.Holders{v.Name: p.users[v.Name]})
	if h.First(v.Name) < 0 {
		h.Add(v.Name, 0)
	}
}

// holdFirst notes who has the variables that the runtime did not know: who uses one gives it the
// same first contents as all others.
func (p *Program) holdFirst() {
	for _, v := range p.Graph().Vars {
		if x := p.rt.exchange; x != nil && x.holders.First(v.Name) < 0 {
			p.hold(v)
		}
	}
}

// letGo notes which ranks have a variable no more, since this program alone had it there.
func (p *Program) letGo() {
	x := p.rt.exchange
	if x == nil {
		return
	}
	left := map[string][]*Program{}
	for _, q := range p.rt.programs {
		for _, v := range q.Graph().Vars {
			left[v.Name] = append(left[v.Name], q)
		}
	}
	for _, v := range p.Graph().Vars {
		if left[v.Name] == nil {
			delete(x.holders, v.Name)
		}
		x.holders.Keep(v.Name, func(rank int) bool {
			return slices.ContainsFunc(left[v.Name], func(q *Program) bool { return q.Has(v.Name, rank) })
		})
	}
}

// holdNew notes that all ranks were given new contents of a variable, or of its ranges.
func (p *Program) holdNew(whole string) {
	for _, v := range p.Graph().Vars {
		if p.rt.exchange != nil && v.Whole().Name == whole {
			p.hold(v)
		}
	}
}

// Holder is the lowest rank that has the newest contents of a variable once the steps that
// were queued have ended. It is the same on all ranks; 0 if there is one process.
func (p *Program) Holder(variable string) int {
	if p.rt.exchange == nil {
		return 0
	}
	return p.rt.exchange.holders.First(variable)
}

// newest reports whether this rank has the newest contents of a variable once the steps that were queued have ended.
func (p *Program) newest(variable string) bool {
	x := p.rt.exchange
	return x == nil || x.holders.Has(variable, x.rank())
}

// addMessages appends the tasks of this rank that send and receive what launch i of a step reads.
// next is the first message that may be before it; it returns the first that is not.
func (p *Program) addMessages(e *expansion, l *listed, i, next int) (int, error) {
	x := p.rt.exchange
	for ; next < len(l.exchange.Messages) && l.exchange.Messages[next].Before == i; next++ {
		m := &l.exchange.Messages[next]
		var t *task
		var err error
		switch v := m.Value; {
		case x.owns(m.To):
			t, err = p.messageTask(l, m.Instance, m.To, message{number: next, lineKey: lineKey{-1, false}})
		case m.From >= 0 && x.owns(m.From):
			t, err = p.messageTask(l, m.Instance, m.From, message{number: next, lineKey: lineKey{x.Of[m.To], true}})
		case m.From < 0: // whoever has written the variable by then
			home, known := l.homes[v.Name]
			for d := range x.Of {
				if !known && x.owns(d) && p.rt.Devices[d] != nil {
					home, known = d, true
				}
			}
			if !known {
				continue // it has no device
			}
			if k := (message{number: next, lineKey: lineKey{x.Of[m.To], true}}); p.has(v) {
				t, err = p.messageTask(l, m.Instance, home, k)
			} else {
				t = p.newMessage(l, v.Name, home, k)
			}
		default:
			continue
		}
		if err != nil {
			return next, err
		}
		e.tasks = append(e.tasks, t)
	}
	return next, nil
}

// messageTask makes a task that sends or receives a tensor on a device.
func (p *Program) messageTask(l *listed, i partition.Instance, dev int, m message) (*task, error) {
	x, err := p.tensor(i)
	if err != nil {
		return nil, err
	}
	t := p.newMessage(l, x.Name(), dev, m)
	mode := residency.Write
	if m.sends {
		mode = residency.Read
	}
	t.needs = []residency.Need{{Tensor: x, Device: p.rt.on[dev].index, Mode: mode}}
	return t, nil
}

// newMessage makes such a task without the tensor. That of a variable which the program does not have on this rank
// is known once it is sent, since a program that has it may be loaded later.
func (p *Program) newMessage(l *listed, tensor string, dev int, m message) *task {
	before := &l.launches[l.exchange.Messages[m.number].Before]
	does := "receive of "
	if m.sends {
		does = "send of "
	}
	return &task{
		name: does + tensor, message: &m, microbatch: before.Microbatch, action: before.Action(), kinds: before.Kinds(),
		dev: dev, device: p.rt.Devices[dev].ID(),
	}
}

// needsOf are the needs of a message's task in this step.
func (p *Program) needsOf(f *flight, t *task) ([]residency.Need, error) {
	if len(t.needs) > 0 {
		return t.needs, nil
	}
	variable := f.e.exchange.Messages[t.message.number].Value.Name
	x := p.elsewhere(variable)
	if x == nil {
		return nil, fmt.Errorf("no program of rank %d has %s any more, which only that rank has written: close programs that share variables together", p.rt.exchange.rank(), variable)
	}
	t.message.found[0] = residency.Need{Tensor: x, Device: p.rt.on[t.dev].index, Mode: residency.Read}
	return t.message.found[:], nil
}

// queueMessage queues a task that sends or receives, unless the rank that reads the tensor has it
// already.
func (p *Program) queueMessage(ctx context.Context, f *flight, t *task) error {
	x, k := p.rt.exchange, t.message.lineKey
	switch from := x.senders[t.message.number]; {
	case k.sends && from != x.rank(), !k.sends && from < 0:
		return p.dropAll(t)
	case !k.sends:
		k.peer = from
	}
	s, err := p.rt.stream(streamKey{t.dev, k})
	if err != nil {
		return err
	}
	needs, err := p.needsOf(f, t)
	if err != nil {
		return err
	}
	m := p.rt.Residency
	if err := m.Acquire(ctx, s, needs, 0, &t.lease); err != nil {
		return err
	}
	label := ranks.Label{Step: uint64(f.ticket), What: t.name}
	var used device.Event // when the tensor is there, or not used any more
	if b, ok := t.lease.Buffers[0].(device.Shared); ok && p.rt.Devices[t.dev].Spec().HostVisible {
		used, err = x.line(k).Add(b, s.Record(), label)
		t.events[f.slot()] = used
	} else {
		used, err = p.throughHost(f, t, s, x.line(k), label)
	}
	if err != nil {
		return errors.Join(err, m.Abandon(&t.lease))
	}
	if err := m.Release(&t.lease, used); err != nil {
		return err
	}
	return p.dropAll(t)
}

// throughHost sends or receives a tensor of a device whose memory the host does not address. The host
// memory between them is kept for the steps to come.
func (p *Program) throughHost(f *flight, t *task, s device.Stream, l *ranks.Line, label ranks.Label) (used device.Event, err error) {
	host := &t.message.host[f.slot()] // the last step that used it has ended
	b := t.lease.Buffers[0]
	if n := b.Meta().Bytes(); host.HostBuffer == nil {
		if err := p.rt.Residency.HoldHost(n); err != nil {
			return used, err
		}
		if host.HostBuffer, err = p.rt.Devices[t.dev].AllocHost(n); err != nil {
			p.rt.Residency.ReleaseHost(n)
			return used, err
		}
	}
	if t.message.sends {
		if used, err = s.CopyOut(host.HostBuffer, b); err == nil {
			t.events[f.slot()], err = l.Add(host, used, label)
		}
		return used, err
	}
	came, err := l.Add(host, device.Event{}, label)
	if err == nil {
		err = s.WaitFor(came)
	}
	if err == nil {
		err = s.CopyIn(b, host.HostBuffer)
	}
	t.events[f.slot()] = s.Record()
	return s.Record(), err
}

// freeHosts frees the host memory of messages, all of which have ended.
func (p *Program) freeHosts() error {
	var errs []error
	for _, e := range p.sizes {
		for _, t := range e.tasks {
			for i := 0; t.message != nil && i < len(t.message.host); i++ {
				if h := &t.message.host[i]; h.HostBuffer != nil {
					p.rt.Residency.ReleaseHost(int64(len(h.Bytes())))
					errs = append(errs, h.Free())
					h.HostBuffer = nil
				}
			}
		}
	}
	return errors.Join(errs...)
}

// dropAll drops what nobody needs after a task.
func (p *Program) dropAll(t *task) error {
	for _, x := range t.drops {
		if err := p.rt.Residency.Drop(x); err != nil {
			return err
		}
	}
	return nil
}

// Here reports whether it is this rank that others ask for a variable: its [Program.Holder].
func (p *Program) Here(variable string) bool {
	return p.rt.exchange == nil || p.Holder(variable) == p.rt.exchange.rank()
}

// Ranked reports whether other processes share the runtime's plans.
func (r *Runtime) Ranked() bool { return r.exchange != nil }

// Rows are the samples of a batch that this rank's launches read.
type Rows struct{ From, To int }

// Rows lists the rows of a batch that this rank must be given, in ascending order; the others
// may have any contents.
func (p *Program) Rows(samples, bucket int) ([]Rows, error) {
	e, err := p.sized(samples, bucket)
	if err != nil {
		return nil, err
	}
	return e.rows, nil
}
