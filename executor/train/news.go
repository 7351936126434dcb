package train

import (
	"context"
	"encoding/binary"
	"math"

	"github.com/berth-ml/berth/engine/device"
	"github.com/berth-ml/berth/executor/ranks"
)

// seen is the mean loss of some steps, up to one.
type seen struct {
	at, over int // over 0: nothing more comes
	mean     float64
}

// newsBytes is the length of a message with what was seen.
const newsBytes = 24

// news carries what the rank that has the losses sees of them to rank 0, which shows it, while steps run. Neither waits for
// the other before the end: what is seen while the message before it is under way is left out.
type news struct {
	transport ranks.Transport
	peer      int // rank 0; on rank 0, the one that has the losses
	b         [newsBytes]byte
	event     device.Event
	open      bool
	over      bool // the peer's last message has come
}

// idle reports whether no message is under way.
func (n *news) idle() bool { return !n.open || n.event.Done() }

// send sends what was seen. No message is under way.
func (n *news) send(s seen) {
	binary.LittleEndian.PutUint64(n.b[:], uint64(s.at))
	binary.LittleEndian.PutUint64(n.b[8:], uint64(s.over))
	binary.LittleEndian.PutUint64(n.b[16:], math.Float64bits(s.mean))
	n.event, n.open = n.transport.Send(n.peer, ranks.TagNews, n.b[:]), true
}

// hear gives what has come, and expects the next; ok is false if nothing has. The last message may come before this rank's own
// end, since ranks do not end their steps at the same time; nothing is expected behind it.
func (n *news) hear() (s seen, ok bool, err error) {
	if n.over || n.open && !n.event.Done() {
		return s, false, nil
	}
	if n.open {
		if err := n.event.Err(); err != nil {
			return s, false, err
		}
		s = seen{int(binary.LittleEndian.Uint64(n.b[:])), int(binary.LittleEndian.Uint64(n.b[8:])), math.Float64frombits(binary.LittleEndian.Uint64(n.b[16:]))}
		ok, n.over = true, s.over == 0
	}
	if n.open = !n.over; n.open {
		n.event = n.transport.Recv(n.peer, ranks.TagNews, n.b[:])
	}
	return s, ok, nil
}

// end waits until the last message has come. Both ranks call it, once nothing more is seen. nil has none.
func (n *news) end(ctx context.Context) error {
	if n == nil {
		return nil
	}
	if n.transport.Rank() > 0 {
		if n.open {
			if err := n.event.Wait(ctx); err != nil {
				return err
			}
		}
		n.send(seen{})
		return n.event.Wait(ctx)
	}
	for {
		if _, _, err := n.hear(); err != nil || n.over {
			return err
		}
		if err := n.event.Wait(ctx); err != nil {
			return err
		}
	}
}
