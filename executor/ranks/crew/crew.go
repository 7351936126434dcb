package crew

import (
	"cmp"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/berth-ml/berth/engine/device"
	"github.com/berth-ml/berth/executor/ranks"
)

// Member is what a rank tells the others of itself.
type Member struct {
	Host    string // the name of its machine
	Program string // what it runs, and which version
	Free    int64  // bytes of memory that the machine has left for it; 0: it is not known
	Cores   string // that it may use, as the system names them; "" where it does not
	Threads int    // that it runs at once
	Process int    // its number; 0: it is not known
	Space   string // in which processes of one number are the same
}

// Options describe this rank, and how it waits for others.
type Options struct {
	Member
	Carrier string                 // what carries the messages, for the user
	Timeout time.Duration          // after which a rank that is silent, or a step that stands still, ends all; 0: DefaultTimeout
	Waiting func(text string)      // is told on rank 0 whom all wait for; nil: nobody is
	Lost    func(err error)        // is told on one rank why all end, before they do; nil: nobody is
	KindOf  func(err error) Kind   // what an error is; nil: Failed
	Text    func(err error) string // how an error is told; nil: by its Error
	soon    time.Duration          // after which Waiting is told; 0: usualSoon
}

// DefaultTimeout is how long a rank may be silent.
const DefaultTimeout = 5 * time.Minute

// usualSoon is how long all wait before the user hears for whom.
const usualSoon = 10 * time.Second

// Crew is the ranks of one run. A nil Crew is a process alone, of which Rank, Size and Close know. One goroutine uses it, but for
// Lenders and the other methods that say so.
type Crew struct {
	transport *counted
	steps     *steps
	opt       Options
	silence   atomic.Int64             // Options.Timeout
	known     atomic.Pointer[[]Member] // nil before they have met
	vigil     *vigil
	losing    sync.Once // why all end is told
	telling   sync.Once // of Tell
	told      bool

	mu     sync.Mutex
	does   func() Doing
	awaits []awaited // what is waited for now
	got    uint64    // what has come
}

// awaited is what is waited for of a rank.
type awaited struct {
	rank int
	what string
}

// Meet has the ranks introduce themselves. It fails where they do not run the same program.
func Meet(ctx context.Context, t ranks.Transport, o Options) (*Crew, error) {
	o.soon = cmp.Or(o.soon, usualSoon)
	all := &counted{Transport: t}
	c := &Crew{transport: all, steps: newSteps(all), opt: o}
	c.SetTimeout(cmp.Or(o.Timeout, DefaultTimeout))
	c.watch()
	err := c.meet(ctx)
	if _, all := errors.AsType[*Verdict](err); all {
		c.vigil.end()
	}
	return c, err
}

// meet has the ranks learn each other's names.
func (c *Crew) meet(ctx context.Context) error {
	mine, err := json.Marshal(c.opt.Member)
	if err != nil {
		return err
	}
	all, err := c.Gather(ctx, "its name", mine)
	if err != nil {
		return err
	}
	list := make([]Member, c.Size())
	for i, b := range all {
		if err := json.Unmarshal(b, &list[i]); err != nil {
			return fmt.Errorf("rank %d says %q of itself: %w", i, b, err)
		}
	}
	c.known.Store(&list)
	return c.Agree(ctx, "its program", nil, Fact{"the program", c.opt.Program, "start the same file on all machines"})
}

// Rank is the number of this rank, from 0 on.
func (c *Crew) Rank() int {
	if c == nil {
		return 0
	}
	return c.transport.Rank()
}

// Size is the number of ranks.
func (c *Crew) Size() int {
	if c == nil {
		return 1
	}
	return c.transport.Size()
}

// Transport carries messages between the ranks. Its Fail ends what this rank waits for; see [Crew.Cut].
func (c *Crew) Transport() ranks.Transport { return c.steps }

// Carrier is what carries the messages.
func (c *Crew) Carrier() string { return c.opt.Carrier }

// Members are the ranks; nil before they have met.
func (c *Crew) Members() []Member {
	if list := c.known.Load(); list != nil {
		return *list
	}
	return nil
}

// SetTimeout says how long a rank may be silent from now on, and all may stand still.
func (c *Crew) SetTimeout(d time.Duration) { c.silence.Store(int64(d)) }

func (c *Crew) timeout() time.Duration { return time.Duration(c.silence.Load()) }

// SetDoing names the function that says what this rank does. It is called from another goroutine. nil: it is at work.
func (c *Crew) SetDoing(f func() Doing) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.does = f
}

// Sent is the number of bytes that this rank has sent to others, in all.
func (c *Crew) Sent() int64 { return c.transport.sent.Load() }

// Doing is what this rank does now. Any goroutine may call it.
func (c *Crew) Doing() Doing {
	c.mu.Lock()
	f, got := c.does, c.got
	var waits awaited
	if len(c.awaits) > 0 {
		waits = c.awaits[0]
	}
	c.mu.Unlock()
	d := Doing{What: "it is at work", Rank: -1}
	if f != nil {
		d = f()
	}
	if d.Moves += got; d.Rank < 0 && waits.what != "" {
		d.Rank, d.For = waits.rank, waits.what
	}
	return d
}

// Name is a rank with its machine: "rank 2 (node7)".
func (c *Crew) Name(rank int) string {
	if list := c.Members(); list != nil && list[rank].Host != "" {
		return fmt.Sprintf("rank %d (%s)", rank, list[rank].Host)
	}
	return fmt.Sprintf("rank %d", rank)
}

// Machines is the number of machines that the ranks are on.
func (c *Crew) Machines() int {
	hosts := map[string]bool{}
	for _, m := range c.Members() {
		hosts[m.Host] = true
	}
	return len(hosts)
}

// Part is what a rank has of its machine, which it may share with other ranks.
type Part struct {
	Of      int   // ranks on the machine
	Threads int   // that the rank should run
	Free    int64 // bytes of memory for the rank; 0: it is not known
}

// Part divides the machine of this rank among those on it. Where the launcher has given each cores of its own,
// its threads are as they are.
func (c *Crew) Part() Part {
	me := c.Members()[c.Rank()]
	p := Part{Threads: me.Threads, Free: me.Free}
	at, bound := 0, false
	for i, m := range c.Members() {
		if m.Host != me.Host {
			continue
		}
		if i < c.Rank() {
			at++
		}
		p.Of++
		p.Free = min(p.Free, m.Free)
		bound = bound || m.Cores != me.Cores
	}
	if p.Free /= int64(p.Of); !bound {
		p.Threads = max(1, (me.Threads+p.Of-1-at)/p.Of)
	}
	return p
}

// Abort ends all ranks at once, with an exit code, in whatever state they are. Any goroutine may call it.
func (c *Crew) Abort(code int) { c.transport.Abort(code) }

// Close ends the crew. All ranks call it.
func (c *Crew) Close() error {
	if c == nil {
		return nil
	}
	c.vigil.end()
	closed := make(chan error, 1)
	go func() { closed <- c.transport.Close() }()
	select {
	case err := <-closed:
		return err
	case <-time.After(c.timeout()):
		err := lostf("the ranks have come to their ends, and not ended together within %v: one hangs", c.timeout())
		c.lose(err, ExitLost)
		return err
	}
}

// longest is the most bytes of a message between ranks.
const longest = 64 << 20

// send sends bytes behind their number.
func (c *Crew) send(to int, tag ranks.Tag, b []byte) (sent []device.Event) {
	length := binary.LittleEndian.AppendUint64(nil, uint64(len(b)))
	sent = append(sent, c.transport.Send(to, tag, length))
	if len(b) > 0 {
		sent = append(sent, c.transport.Send(to, tag, b))
	}
	return sent
}

// message receives what send sends.
func (c *Crew) message(ctx context.Context, from int, tag ranks.Tag) ([]byte, error) {
	var length [8]byte
	if err := c.transport.Recv(from, tag, length[:]).Wait(ctx); err != nil {
		return nil, err
	}
	n := binary.LittleEndian.Uint64(length[:])
	if n > longest {
		return nil, fmt.Errorf("%s sends a message of %d bytes", c.Name(from), n)
	}
	b := make([]byte, n)
	if n == 0 {
		return b, nil
	}
	return b, c.transport.Recv(from, tag, b).Wait(ctx)
}

// recv is message of what ranks tell each other of themselves.
func (c *Crew) recv(ctx context.Context, from int, what string) ([]byte, error) {
	defer c.waitsFor(from, what)()
	return c.message(ctx, from, ranks.TagControl)
}

// await waits for messages of a rank. The vigil ends that, if all of them wait for too long.
func (c *Crew) await(ctx context.Context, rank int, what string, events ...device.Event) error {
	defer c.waitsFor(rank, what)()
	for _, e := range events {
		if err := e.Wait(ctx); err != nil {
			return err
		}
	}
	return nil
}

// waitsFor notes what this rank waits for, until got is called.
func (c *Crew) waitsFor(rank int, what string) (got func()) {
	w := awaited{rank, what}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.awaits = append(c.awaits, w)
	return func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		i := slices.Index(c.awaits, w)
		c.awaits = slices.Delete(c.awaits, i, i+1)
		c.got++
	}
}

// ShareBytes is Share of any number of bytes, which all ranks know: others get them in b.
func (c *Crew) ShareBytes(ctx context.Context, what string, b []byte) error {
	for len(b) > 0 {
		n := min(len(b), chunk)
		for i := 1; i < c.Size(); i++ {
			var err error
			switch c.Rank() {
			case 0:
				err = c.Send(ctx, i, what, b[:n])
			case i:
				err = c.Recv(ctx, 0, what, b[:n])
			}
			if err != nil {
				return err
			}
		}
		b = b[n:]
	}
	return nil
}

// Send sends bytes to another rank, which receives as many by Recv.
func (c *Crew) Send(ctx context.Context, to int, what string, b []byte) error {
	return c.await(ctx, to, what, c.transport.Send(to, ranks.TagControl, b))
}

// Recv receives bytes that another rank sends by Send.
func (c *Crew) Recv(ctx context.Context, from int, what string, b []byte) error {
	return c.await(ctx, from, what, c.transport.Recv(from, ranks.TagControl, b))
}

// Gather gives all ranks what each has.
func (c *Crew) Gather(ctx context.Context, what string, mine []byte) ([][]byte, error) {
	all, err := c.collect(ctx, what, mine)
	if err != nil {
		return nil, err
	}
	var joined []byte
	if c.Rank() == 0 {
		if joined, err = json.Marshal(all); err != nil {
			return nil, err
		}
	}
	if joined, err = c.Share(ctx, what+" of all", joined); err != nil {
		return nil, err
	}
	return all, json.Unmarshal(joined, &all)
}

// collect gives rank 0 what each rank has.
func (c *Crew) collect(ctx context.Context, what string, mine []byte) (all [][]byte, err error) {
	if c.Rank() != 0 {
		return nil, c.await(ctx, 0, what, c.send(0, ranks.TagControl, mine)...)
	}
	all = make([][]byte, c.Size())
	all[0] = mine
	for i := 1; i < c.Size(); i++ {
		if all[i], err = c.recv(ctx, i, what); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// Share gives all ranks what rank 0 has.
func (c *Crew) Share(ctx context.Context, what string, b []byte) ([]byte, error) {
	if c.Rank() != 0 {
		return c.recv(ctx, 0, what)
	}
	for i := 1; i < c.Size(); i++ {
		if err := c.await(ctx, i, what, c.send(i, ranks.TagControl, b)...); err != nil {
			return nil, err
		}
	}
	return b, nil
}
