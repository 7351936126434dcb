package serve

import (
	"context"
	"testing"
	"time"
)

// One client gets a share of what all get, and what it gives back is there at once.
func TestShareOfClients(t *testing.T) {
	o := &OpenOptions{}
	o.Limits = Limits{Requests: 4, Memory: 80 << 10, Share: 50}
	o.Service.Texts, o.Service.Queue = 4, 4
	g := newGate(o) // of memory, 70 KiB are for requests
	one, again, other := g.enter("192.0.2.1:1"), g.enter("[::ffff:192.0.2.1]:2"), g.enter("192.0.2.2:1")
	hold := func(p *pass, want use, ok bool) {
		t.Helper()
		if refused := p.hold(want); (refused == nil) != ok {
			t.Errorf("hold %+v: %v", want, refused)
		}
	}
	hold(one, use{requests: 2, memory: 30 << 10}, true)
	hold(again, use{requests: 1}, false)
	hold(again, use{memory: 6 << 10}, false)
	hold(again, use{memory: 5 << 10}, true)
	hold(other, use{requests: 2, memory: 35 << 10}, true)
	hold(g.enter("192.0.2.3:1"), use{requests: 1}, false)
	hold(g.enter("192.0.2.3:1"), use{memory: 1}, false)
	one.leave()
	hold(again, use{requests: 2, memory: 35 << 10}, true)
	again.leave()
	other.leave()
	if g.memory() != 0 || g.taken != (use{}) {
		t.Errorf("at last %+v are taken", g.taken)
	}
}

// Samples and texts of one client wait for its others, and no longer than their request.
func TestTurnsOfClients(t *testing.T) {
	o := &OpenOptions{}
	o.Limits = Limits{Requests: 4, Memory: 1 << 20, Share: 50}
	o.Service.Texts, o.Service.Queue = 2, 10
	g := newGate(o)
	one, other := g.enter("192.0.2.1:1"), g.enter("192.0.2.2:1")
	soon, cancel := context.WithTimeout(t.Context(), 5*time.Millisecond)
	defer cancel()
	doneText, err := one.text(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	doneSamples, err := one.samples(t.Context(), 1000) // more than may be there
	if err != nil {
		t.Fatal(err)
	}
	if _, err := one.text(soon); err == nil {
		t.Error("a second text of the client does not wait")
	}
	if _, err := one.samples(soon, 1); err == nil {
		t.Error("another sample of the client does not wait")
	}
	if _, err := other.text(t.Context()); err != nil {
		t.Error(err)
	}
	doneText()
	doneSamples()
	done, err := other.samples(t.Context(), 5)
	if err != nil || other.queued() != nil {
		t.Error(err, other.queued())
	}
	if done(); g.clients["192.0.2.1"] == nil {
		t.Error("a client that has a pass is forgotten")
	}
	one.leave()
	other.leave()
	if len(g.clients) != 0 {
		t.Errorf("%d clients are left", len(g.clients))
	}
}

func TestClientName(t *testing.T) {
	for address, want := range map[string]string{
		"192.0.2.1:80": "192.0.2.1", "[::ffff:192.0.2.1]:80": "192.0.2.1", "[2001:db8:1:2:3::4]:80": "2001:db8:1:2::/64", "[fe80::1%eth0]:80": "fe80::/64",
		"[::1]:80": "::1", "@": "@", "name:80": "name",
	} {
		if got := clientName(address); got != want {
			t.Errorf("%s: %s, want %s", address, got, want)
		}
	}
}

// A share is at least one, and all of it is all, without overflow.
func TestShare(t *testing.T) {
	for _, x := range []struct {
		bound   int64
		percent int
		want    int64
	}{{1, 1, 1}, {10, 50, 5}, {199, 50, 99}, {1 << 62, 100, 1 << 62}, {1 << 62, 50, 1 << 61}} {
		if got := share(x.bound, x.percent); got != x.want {
			t.Errorf("%d%% of %d: %d, want %d", x.percent, x.bound, got, x.want)
		}
	}
}
