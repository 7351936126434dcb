package serve

import (
	"context"
	"fmt"
	"math"
	"net"
	"net/netip"
	"sync"

	"golang.org/x/sync/semaphore"
)

// use is what requests take of a server.
type use struct {
	requests    int
	texts       int // under way or waiting
	connections int
	memory      int64 // bytes
}

// add adds other, times sign.
func (u *use) add(other use, sign int) {
	u.requests += sign * other.requests
	u.texts += sign * other.texts
	u.connections += sign * other.connections
	u.memory += int64(sign) * other.memory
}

// gate bounds what all requests take at once, and what those of one client address take of
// it: so no client can take all. Its methods are safe for concurrent use.
type gate struct {
	all, each use // bounds: of all clients, of each one
	running   turns
	waiting   int64               // samples that may be in the queue
	queue     *semaphore.Weighted // those samples

	mu      sync.Mutex
	taken   use
	clients map[string]*client // those that take something
}

// client is a client address.
type client struct {
	passes         int
	taken          use
	texts, samples *semaphore.Weighted // that are generated, and that wait for a batch
}

// turns are what one client may have under way at once. What is beyond it waits.
type turns struct{ texts, samples int64 }

// share is a client's part of a bound, at least one.
func share[T int | int64](bound T, percent int) T {
	return max(1, bound/100*T(percent)+bound%100*T(percent)/100)
}

// moreConnections may be open beside twice as many as requests are handled at once: of clients
// that ask now and then, and of those who watch the server.
const moreConnections = 64

// newGate has the bounds of a server.
func newGate(o *OpenOptions) *gate {
	l, s := &o.Limits, &o.Service
	g := &gate{clients: map[string]*client{}, running: turns{int64(share(s.Texts, l.Share)), int64(share(s.Queue, l.Share))}, waiting: int64(s.Queue), queue: semaphore.NewWeighted(int64(s.Queue))}
	g.all = use{requests: l.Requests, texts: s.Texts + s.Queue, memory: l.Memory - l.Memory/connectionShare}
	g.all.connections = int(min(int64(2*l.Requests+moreConnections), max(2, l.Memory/connectionShare/connectionBytes)))
	g.each = use{
		requests: share(g.all.requests, l.Share), connections: share(g.all.connections, l.Share),
		texts: share(g.all.texts, l.Share), memory: share(g.all.memory, l.Share),
	}
	if l.Share == 100 {
		g.running = turns{math.MaxInt64, math.MaxInt64}
	}
	return g
}

// pass is what one request, or one connection, of a client takes.
type pass struct {
	gate  *gate
	name  string // of the client
	of    *client
	taken use
}

// enter lets a client take. The caller leaves.
func (g *gate) enter(address string) *pass {
	g.mu.Lock()
	defer g.mu.Unlock()
	name := clientName(address)
	c := g.clients[name]
	if c == nil {
		c = &client{texts: semaphore.NewWeighted(g.running.texts), samples: semaphore.NewWeighted(g.running.samples)}
		g.clients[name] = c
	}
	c.passes++
	return &pass{gate: g, name: name, of: c}
}

// hold makes want what the pass takes. Where that is more than before, and more than there
// is, it changes nothing, and the problem says what is missing.
func (p *pass) hold(want use) *problem {
	g := p.gate
	g.mu.Lock()
	defer g.mu.Unlock()
	more := want
	more.add(p.taken, -1)
	all, own := g.taken, p.of.taken
	all.add(more, 1)
	own.add(more, 1)
	switch {
	case more.requests > 0 && own.requests > g.each.requests:
		return busy("your address has %d requests under way, as many as one may have: try again when one is answered", g.each.requests)
	case more.requests > 0 && all.requests > g.all.requests:
		return busy("too many requests are under way: try again later")
	case more.memory > 0 && own.memory > g.each.memory:
		return busy("the requests of your address take all memory that one may have: try again when one is answered, or send a smaller one")
	case more.memory > 0 && all.memory > g.all.memory:
		return busy("other requests take all memory that is for requests: try again later, or send a smaller one")
	case more.texts > 0 && (all.texts > g.all.texts || own.texts > g.each.texts):
		return busy("too many texts wait: try again later")
	case more.connections > 0 && (all.connections > g.all.connections || own.connections > g.each.connections):
		return busy("too many connections are open: close some, or try again later")
	}
	g.taken, p.of.taken, p.taken = all, own, want
	return nil
}

// connection has a connection take one of those of its client, for [bounds.HTTP].
func (g *gate) connection(conn net.Conn) (leave func(), ok bool) {
	p := g.enter(conn.RemoteAddr().String())
	if refused := p.hold(use{connections: 1}); refused != nil {
		p.leave()
		return nil, false
	}
	return p.leave, true
}

// text waits until fewer texts of the client are generated than one client may have. The
// caller calls done.
func (p *pass) text(ctx context.Context) (done func(), err error) {
	return turn(ctx, p.of.texts, 1)
}

// queued refuses samples while as many wait as may, before they are read.
func (p *pass) queued() *problem {
	if !p.gate.queue.TryAcquire(1) {
		return busy("too many requests wait: try again later")
	}
	p.gate.queue.Release(1)
	return nil
}

// samples waits until n more samples may be in the queue, of the client and of all; more than
// may be there are there alone. The caller calls done.
func (p *pass) samples(ctx context.Context, n int) (done func(), err error) {
	own, err := turn(ctx, p.of.samples, min(int64(n), p.gate.running.samples))
	if err != nil {
		return nil, err
	}
	all, err := turn(ctx, p.gate.queue, min(int64(n), p.gate.waiting))
	if err != nil {
		own()
		return nil, err
	}
	return func() { all(); own() }, nil
}

// turn takes n of s.
func turn(ctx context.Context, s *semaphore.Weighted, n int64) (done func(), err error) {
	if err := s.Acquire(ctx, n); err != nil {
		return nil, problemOf(ctx, err)
	}
	return func() { s.Release(n) }, nil
}

// leave gives back all that the pass takes.
func (p *pass) leave() {
	_ = p.hold(use{}) // less is always there
	p.gate.mu.Lock()
	defer p.gate.mu.Unlock()
	if p.of.passes--; p.of.passes == 0 {
		delete(p.gate.clients, p.name)
	}
}

// memory is the memory that requests take.
func (g *gate) memory() int64 {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.taken.memory
}

// clientName is the host of an address; of IPv6, where one host has many, its network.
func clientName(address string) string {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return address
	}
	ip, err := netip.ParseAddr(host)
	if err != nil {
		return host
	}
	if ip = ip.Unmap().WithZone(""); ip.Is4() || ip.IsLoopback() {
		return ip.String()
	}
	network, err := ip.Prefix(64)
	if err != nil {
		panic(fmt.Sprintf("BUG: %v", err))
	}
	return network.String()
}
