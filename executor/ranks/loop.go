package ranks

import (
	"fmt"
	"slices"
	"sync"

	"github.com/berth-ml/berth/engine/device"
)

// loop is a transport between the goroutines of one process.
type loop struct {
	rank  int
	peers []*loop // of all ranks
	ops   Operations
	mu    sync.Mutex // guards what comes to this rank
	sent  map[channel][]parcel
	wants map[channel][]parcel
	abort func(code int)
}

// channel is what messages of one order have in common, seen from their receiver.
type channel struct {
	from int
	tag  Tag
}

// parcel is one side of a message: the sender's or the receiver's.
type parcel struct {
	b     []byte
	event device.Event
}

// NewLoop makes transports between ranks of one process, for tests. abort is called for
// Abort, after all operations have failed.
func NewLoop(size int, abort func(code int)) []Transport {
	peers, list := make([]*loop, size), make([]Transport, size)
	for i := range peers {
		peers[i] = &loop{rank: i, peers: peers, sent: map[channel][]parcel{}, wants: map[channel][]parcel{}, abort: abort}
		list[i] = peers[i]
	}
	return list
}

func (l *loop) Rank() int { return l.rank }
func (l *loop) Size() int { return len(l.peers) }

func (l *loop) Send(to int, tag Tag, b []byte) device.Event {
	p := parcel{b, l.ops.Begin()}
	l.peers[to].meet(l, channel{l.rank, tag}, p, true)
	return p.event
}

func (l *loop) Recv(from int, tag Tag, b []byte) device.Event {
	p := parcel{b, l.ops.Begin()}
	l.meet(l.peers[from], channel{from, tag}, p, false)
	return p.event
}

// meet brings a parcel together with the first one of the other side, or keeps it until that comes. If they do not
// fit, both ranks have failed.
func (l *loop) meet(sender *loop, c channel, p parcel, sends bool) {
	if err := l.pair(sender, c, p, sends); err != nil {
		sender.Fail(err)
		l.Fail(err)
	}
}

func (l *loop) pair(sender *loop, c channel, p parcel, sends bool) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if sender.ops.Failure() != nil && sends || l.ops.Failure() != nil && !sends {
		return nil // its event has ended
	}
	mine, others := l.wants, l.sent
	if sends {
		mine, others = l.sent, l.wants
	}
	if len(others[c]) == 0 {
		mine[c] = append(mine[c], p)
		return nil
	}
	other := others[c][0]
	others[c] = slices.Delete(others[c], 0, 1) // which leaves room for the next one
	from, to := other, p
	if sends {
		from, to = p, other
	}
	if len(from.b) != len(to.b) {
		return fmt.Errorf("rank %d sent %d bytes, and rank %d expected %d", c.from, len(from.b), l.rank, len(to.b))
	}
	copy(to.b, from.b)
	sender.ops.End(from.event, nil)
	l.ops.End(to.event, nil)
	return nil
}

func (l *loop) Fail(err error) {
	for _, p := range l.peers { // in the order of ranks; nothing is copied meanwhile
		p.mu.Lock()
		defer p.mu.Unlock()
	}
	l.ops.Fail(err)
	for _, p := range l.peers {
		for c := range p.sent {
			if c.from == l.rank || p == l {
				delete(p.sent, c)
			}
		}
	}
	clear(l.wants)
}

func (l *loop) Abort(code int) {
	l.abort(code) // first: a rank whose operations fail may ask why
	for _, p := range l.peers {
		p.Fail(fmt.Errorf("rank %d has ended all ranks", l.rank))
	}
}

func (*loop) Close() error { return nil }
