package crew

import (
	"context"
	"strings"

	"github.com/berth-ml/berth/engine/device"
	"github.com/berth-ml/berth/executor/ranks"
)

// Orders are what becomes of a run after a step.
type Orders struct {
	Stop bool   // it ends, saved
	Save bool   // a checkpoint is taken, which no step's number asks for
	Why  string // of Stop, or of Save where somebody has asked for it
}

// orderBytes is the length of a message with Orders.
const orderBytes = 64

// put writes orders into a message. A reason that is too long is cut.
func (o Orders) put(b []byte) {
	clear(b)
	if o.Stop {
		b[0] |= 1
	}
	if o.Save {
		b[0] |= 2
	}
	copy(b[1:], strings.ToValidUTF8(o.Why[:min(len(o.Why), orderBytes-1)], ""))
}

// ordersOf reads a message.
func ordersOf(b []byte) Orders {
	return Orders{Stop: b[0]&1 != 0, Save: b[0]&2 != 0, Why: strings.TrimRight(string(b[1:]), "\x00")}
}

// Pilot has all ranks stop and save at the same steps. Before each step, every rank calls Next. Rank 0 decides about
// the end of that step, when it is not yet queued; the others hear of it behind that step, and meanwhile have time.
type Pilot struct {
	crew *Crew
	out  []message // of rank 0, to each other one; of another, to rank 0
	in   []message // from them
	next Orders    // of rank 0, what it has decided about the step under way
	asks Orders    // of rank 0, what others have asked for and is not decided yet
}

// message is the newest message to a rank, or from one.
type message struct {
	peer  int
	b     [orderBytes]byte
	event device.Event
	open  bool
}

// NewPilot has no message under way.
func (c *Crew) NewPilot() *Pilot {
	p := &Pilot{crew: c}
	for i := range c.Size() {
		if i != c.Rank() && (c.Rank() == 0 || i == 0) {
			p.out, p.in = append(p.out, message{peer: i}), append(p.in, message{peer: i})
		}
	}
	return p
}

// Next is called before a step is queued. On rank 0, o is what happens after that step; on others, it is what this
// rank asks for, such as after a signal.
func (p *Pilot) Next(ctx context.Context, o Orders) error {
	if p.crew.Rank() == 0 {
		if err := p.hear(ctx); err != nil {
			return err
		}
		p.next, p.asks = merged(o, p.asks), Orders{}
		o = p.next
	}
	for i := range p.out {
		if err := p.send(ctx, &p.out[i], o); err != nil {
			return err
		}
	}
	return nil
}

// merged are the orders of two.
func merged(a, b Orders) Orders {
	if a.Why == "" {
		a.Why = b.Why
	}
	return Orders{a.Stop || b.Stop, a.Save || b.Save, a.Why}
}

// send sends orders, once the message before has gone.
func (p *Pilot) send(ctx context.Context, m *message, o Orders) error {
	if m.open {
		if err := p.crew.await(ctx, m.peer, "its step", m.event); err != nil {
			return err
		}
	}
	o.put(m.b[:])
	m.event, m.open = p.crew.transport.Send(m.peer, ranks.TagOrders, m.b[:]), true
	return nil
}

// hear takes in what others have asked for, as far as it is there, and expects a message of each for the step to come.
// The message of the step before may not be there yet: then it is waited for, and that one was a whole step ago.
func (p *Pilot) hear(ctx context.Context) error {
	for i := range p.in {
		if err := p.took(ctx, &p.in[i]); err != nil {
			return err
		}
		p.expect(&p.in[i])
	}
	return nil
}

// expect begins to receive the next message of a rank.
func (p *Pilot) expect(m *message) {
	m.event, m.open = p.crew.transport.Recv(m.peer, ranks.TagOrders, m.b[:]), true
}

// took waits for a message that is expected, and takes it in.
func (p *Pilot) took(ctx context.Context, m *message) error {
	if !m.open {
		return nil
	}
	if err := p.crew.await(ctx, m.peer, "its step", m.event); err != nil {
		return err
	}
	m.open = false
	p.asks = merged(p.asks, ordersOf(m.b[:]))
	return nil
}

// Orders are what happens after the step that was queued behind the newest call of Next. They are the same in all ranks.
func (p *Pilot) Orders(ctx context.Context) (Orders, error) {
	if p.crew.Rank() == 0 {
		return p.next, nil
	}
	m := &p.in[0]
	p.expect(m)
	if err := p.crew.await(ctx, 0, "what happens after the step", m.event); err != nil {
		return Orders{}, err
	}
	m.open = false
	return ordersOf(m.b[:]), nil
}

// End waits for the messages that are under way. All ranks call it, once none of them calls Next any more.
func (p *Pilot) End(ctx context.Context) error {
	for i := range p.in {
		if err := p.took(ctx, &p.in[i]); err != nil {
			return err
		}
	}
	for i := range p.out {
		if m := &p.out[i]; m.open {
			if err := p.crew.await(ctx, m.peer, "its step", m.event); err != nil {
				return err
			}
			m.open = false
		}
	}
	return nil
}
